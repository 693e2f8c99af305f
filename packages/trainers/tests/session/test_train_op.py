"""The op of one step, until the callbacks are set up."""

import pytest
import tensorflow.compat.v1 as tf

from towerpack_trainers import ConfigError, Trainer, TrainerStateError


class MyTrainer(Trainer):
    """Trains no model."""


@pytest.fixture
def bare():
    return MyTrainer(steps_per_epoch=1, max_epoch=1, log_dir=None)


def test_it_may_be_set_until_it_is_fixed(bare):
    with pytest.raises(TrainerStateError, match=r"MyTrainer has no train_op. Set trainer\.train_op, or"):
        _ = bare.train_op
    with bare.graph.as_default():
        first, second = tf.no_op(), tf.constant(1.0)
    bare.train_op = first
    assert bare.train_op is first
    bare.train_op = second
    assert bare.train_op is second.op
    bare.explain()
    assert bare.train_op is second.op
    with pytest.raises(TrainerStateError, match="cannot be changed once the callbacks are set up"):
        bare.train_op = first


def test_without_one_a_step_does_nothing(bare):
    assert bare._prepare().default.train_op.type == "NoOp"
    with pytest.raises(TrainerStateError, match="has no train_op"):
        _ = bare.train_op


def test_the_op_of_another_graph_is_accepted_if_nothing_was_built(bare):
    with tf.Graph().as_default():
        op = tf.no_op()
    bare.train_op = op
    assert bare.train_op is op and bare.graph is op.graph
    built = MyTrainer(steps_per_epoch=1, max_epoch=1, log_dir=None)
    with built.graph.as_default():
        tf.no_op()
    with pytest.raises(ConfigError, match="'NoOp' is not in the graph of this trainer"):
        built.train_op = op
    with pytest.raises(TypeError, match="must be a TensorFlow op of a graph, received 3"):
        built.train_op = 3
