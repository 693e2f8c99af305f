"""The op of one step, until the callbacks are set up."""

import pytest
import tensorflow.compat.v1 as tf

from towerpack_trainers import ConfigError, TrainerStateError
from towerpack_trainers.session import TrainOp


def test_it_may_be_set_until_it_is_fixed():
    train_op = TrainOp()
    with pytest.raises(TrainerStateError, match=r"MyTrainer has no train_op. Set trainer\.train_op, or"):
        train_op.get("MyTrainer")
    with tf.Graph().as_default() as graph:
        first, second = tf.no_op(), tf.constant(1.0)
        assert train_op.put(first, graph) is first is train_op.op
        assert train_op.put(second, graph) is second.op
        assert train_op.fix() is train_op.get("MyTrainer") is second.op
    with pytest.raises(TrainerStateError, match="cannot be changed once the callbacks are set up"):
        train_op.put(first, graph)


def test_without_one_a_step_does_nothing():
    train_op = TrainOp()
    with tf.Graph().as_default():
        assert train_op.fix().type == "NoOp"
    assert train_op.op is None


def test_the_op_of_another_graph_is_accepted_if_nothing_was_built():
    with tf.Graph().as_default():
        op = tf.no_op()
    assert TrainOp().put(op, tf.Graph()) is op
    with tf.Graph().as_default() as built:
        tf.no_op()
    with pytest.raises(ConfigError, match="'NoOp' is not in the graph of this trainer"):
        TrainOp().put(op, built)
    with pytest.raises(TypeError, match="must be a TensorFlow op of a graph, received 3"):
        TrainOp().put(3, built)
