"""Predictors convert and check what they are given as a session does, and share replicas."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback
from towerpack_inputsource import QueueInput
from towerpack_trainers import ConfigError, ModelDesc, SimpleTrainer, TrainerStateError

X, Y = np.array([1.0, 2.0], np.float32), np.array([0.5, 0.5], np.float32)


class Mixed(ModelDesc):
    """Inputs of three kinds."""

    def inputs(self):
        return [
            tf.TensorSpec([None], tf.float32, "x"),
            tf.TensorSpec([2], tf.int64, "n"),
            tf.TensorSpec([], tf.string, "text"),
        ]

    def build_graph(self, x, n, text):
        slope = tf.get_variable("slope", [], initializer=tf.ones_initializer())
        tf.add(tf.cast(n, tf.float32), x * slope, name="sum")
        tf.strings.join([text, "!"], name="loud")
        return tf.reduce_mean(tf.square(x * slope))

    def optimizer(self):
        return tf.train.GradientDescentOptimizer(0.0)


class Ask(Callback):
    """Calls a function while there is a session."""

    def __init__(self, ask):
        self._ask = ask

    def _before_train(self):
        self.answer = self._ask()


def ask(configure, kit, predictors, question, **changes):
    """Trains with predictors that `predictors` makes of the trainer, and asks them."""
    made = []
    callback = Ask(lambda: question(*made))
    trainer = SimpleTrainer(configure(callbacks=[callback], **changes))
    made.extend(predictors(trainer))
    trainer.train()
    return callback.answer


def mixed(configure, kit, question, outputs):
    return ask(
        configure,
        kit,
        lambda trainer: [trainer.get_predictor(["x", "n", "text"], outputs)],
        question,
        model=Mixed(),
        dataflow=[[X, np.array([1, 2]), "a"]] * 4,
    )


def test_values_are_converted_as_a_session_does(configure, kit):
    total, loud, x, again = mixed(
        configure, kit, lambda predict: predict([1, 2], [3, 4], "hey"), ["sum", "loud", "x", "sum"]
    )
    np.testing.assert_array_equal(total, [4, 6])
    np.testing.assert_array_equal(again, total)
    assert loud == b"hey!" and x.dtype == np.float32 and total.dtype == np.float32


def test_shapes_are_checked(configure, kit):
    with pytest.raises(ValueError, match=r"input 'n' has shape \(2,\); received an array of shape \(3,\)"):
        mixed(configure, kit, lambda predict: predict(X, [1, 2, 3], "hey"), ["sum"])


def test_an_input_is_taken_once(configure):
    trainer = SimpleTrainer(configure())
    with pytest.raises(ValueError, match=r"takes each input once, received .*x:0 more than once"):
        trainer.get_predictor(["x", "y", "x:0"], ["error"])


def test_what_is_fed_may_be_all_that_is_fetched(configure, kit):
    [x, again] = mixed(configure, kit, lambda predict: predict(X, [3, 4], "hey"), ["x", "x"])
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(again, X)


def test_predictors_share_the_replica_of_a_device(configure, kit):
    trainer = SimpleTrainer(configure())
    first = trainer.get_predictor(["x", "y"], ["error"])
    size = trainer.graph.version
    again, other = trainer.get_predictor(["x", "y"], ["error"]), trainer.get_predictor(["x"], ["mul"])
    assert trainer.graph.version == size
    assert first.outputs == again.outputs and other.inputs[0] is first.inputs[0]


def test_a_predictor_that_is_asked_for_late_shares_a_replica(configure, kit):
    trainer = SimpleTrainer(configure())
    trainer.get_predictor(["x", "y"], ["error"])
    trainer.train()
    trainer.get_predictor(["x"], ["mul"])
    with pytest.raises(TrainerStateError, match="The graph is final"):
        trainer.get_predictor(["x"], ["mul"], device="/cpu:1")


def test_a_predictor_on_a_device_is_there(configure, kit):
    def predictors(trainer):
        return [trainer.get_predictor(["x", "y"], ["error"], device=device) for device in (None, "/cpu:1")]

    def question(anywhere, there):
        assert there.outputs[0].device.lower().endswith("cpu:1")
        return anywhere(X, Y)[0].tolist(), there(X, Y)[0].tolist()

    for source in ({}, {"data": QueueInput(kit.line_data()), "steps_per_epoch": 3}):
        one, other = ask(configure, kit, predictors, question, **source)
        assert one == other == [-0.5, -0.5]


@pytest.mark.parametrize("device", ["/gpu:77", "nowhere"])
def test_a_device_that_is_not_there(device, configure):
    with pytest.raises(ConfigError, match=r"devices=\["):
        SimpleTrainer(configure()).get_predictor(["x"], ["error"], device=device)
