"""Dataflow and inputsource in a custom loop: no trainer, no callbacks, no layers."""

import importlib.util
import threading

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_dataflow import BatchData, MapData
from towerpack_dataflow.datasets import Digits
from towerpack_inputsource import FeedInput, QueueInput

SPECS = [tf.TensorSpec([None, 8, 8], tf.float32, "image"), tf.TensorSpec([None], tf.int32, "label")]


def softmax_regression(image, label):
    logits = tf.reshape(image, [-1, 64]) @ tf.get_variable("weights", [64, 10])
    cost = tf.losses.sparse_softmax_cross_entropy(label, logits)
    return cost, tf.train.AdamOptimizer(1e-2).minimize(cost)


@pytest.mark.parametrize("name", ["towerpack_trainers", "towerpack_callbacks", "towerpack_layers"])
def test_the_other_wheels_are_not_here(name):
    assert importlib.util.find_spec(name) is None


@pytest.mark.parametrize("make_source", [QueueInput, FeedInput])
def test_a_hand_written_loop_learns_digits(make_source):
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        source = make_source(BatchData(Digits("train"), 32))
        source.seed(1)
        source.setup(SPECS)
        cost, train_op = softmax_regression(*source.get_input_tensors())
        with tf.train.MonitoredTrainingSession(hooks=source.hooks()) as session:
            costs = [session.run([cost, train_op])[0] for _ in range(150)]
    assert np.mean(costs[-20:]) < 0.3 * np.mean(costs[:5])
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("towerpack")]


def test_one_pass_gives_each_digit_once():
    flow = BatchData(Digits("test", shuffle=False), 50, remainder=True)
    with tf.Graph().as_default():
        source = QueueInput(flow, infinite=False)
        source.setup(SPECS)
        image, _ = source.get_input_tensors()
        taken = []
        with tf.train.MonitoredTrainingSession(hooks=source.hooks()) as session:
            while not session.should_stop():
                taken.append(session.run(image))
    expected = np.concatenate([images for images, _ in flow])
    np.testing.assert_array_equal(np.concatenate(taken), expected)


def test_an_error_in_the_flow_leaves_the_loop_with_its_own_type():
    class BrokenImageError(Exception):
        pass

    def fail_late(datapoint):
        fail_late.count += 1
        if fail_late.count > 100:
            raise BrokenImageError("datapoint 100")
        return datapoint

    fail_late.count = 0
    with tf.Graph().as_default():
        source = QueueInput(BatchData(MapData(Digits("train"), fail_late), 16))
        source.setup(SPECS)
        _, train_op = softmax_regression(*source.get_input_tensors())
        with (
            pytest.raises(BrokenImageError, match="datapoint 100") as error,
            tf.train.MonitoredTrainingSession(hooks=source.hooks()) as session,
        ):
            while not session.should_stop():
                session.run(train_op)
    assert any(entry.name == "fail_late" for entry in error.traceback)
