"""The table of trainable variables, and the cost of a forward pass."""

import tensorflow.compat.v1 as tf

from towerpack_layers import Conv2D, FullyConnected, TowerContext
from towerpack_trainers import SimpleTrainer, describe_trainable_variables


def network(batch):
    image = tf.placeholder(tf.float32, [batch, 8, 8, 3])
    with TowerContext("", is_training=True):
        hidden = Conv2D("conv0", image, 4, 3, activation=tf.nn.relu)
        return tf.reduce_sum(FullyConnected("fc", hidden, 10, use_bias=False))


def test_flops_by_hand():
    with tf.Graph().as_default() as graph:
        cost = network(None)
        tf.train.GradientDescentOptimizer(0.1).minimize(cost)
        lines = describe_trainable_variables(graph, cost).splitlines()
    convolution, product = 2 * 8 * 8 * 4 * 3 * 3 * 3, 2 * 8 * 8 * 4 * 10
    flops = {line.split()[0]: line.split()[-1] for line in lines[2:5]}
    assert flops == {"conv0/W": f"{convolution:,}", "conv0/b": "0", "fc/W": f"{product:,}"}
    assert lines[-1].startswith(f"forward: {convolution + product:,} FLOPs; 0.00 MiB of activations")


def test_a_known_batch_counts_as_a_whole():
    with tf.Graph().as_default() as graph:
        cost = network(16)
        tf.gradients(cost, tf.trainable_variables())
        lines = describe_trainable_variables(graph, cost).splitlines()
    # The image, and the convolution's result after relu, which is also the next layer's input.
    floats = 16 * 8 * 8 * (3 + 4)
    kept = float(lines[-1].split("; ")[1].split()[0])
    assert floats * 4 / 2**20 * 0.9 <= kept <= 2.2 * floats * 4 / 2**20


def test_without_gradients_no_activations_are_kept():
    with tf.Graph().as_default() as graph:
        assert "; 0.00 MiB" in describe_trainable_variables(graph, network(16))


def test_without_a_cost_the_table_lists_only_variables():
    with tf.Graph().as_default() as graph:
        network(None)
        lines = describe_trainable_variables(graph).splitlines()
    assert lines[0].split() == ["name", "shape", "elements", "dtype"]
    assert lines[-1] == "3 trainable variables, 2,672 elements, 0.01 MiB"


def test_trainings_log_both(kit, configure, caplog):
    with caplog.at_level("INFO", logger="towerpack_trainers"):
        SimpleTrainer(configure(model=kit.Net(), dataflow=kit.net_data(), max_epoch=1)).train()
    assert "FLOPs" in caplog.text
    assert "of activations for gradients" in caplog.text
