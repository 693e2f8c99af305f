"""Predictors convert and check their inputs as a session does, and share replicas."""

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback, InferenceRunner, ScalarStats, TensorNotFoundError
from towerpack_inputsource import QueueInput
from towerpack_trainers import (
    ConfigError,
    ModelDesc,
    PredictorInputError,
    SimpleTrainer,
    SyncMultiGPUTrainer,
    TrainerStateError,
)
from towerpack_trainers.towers import _predictor
from towerpack_trainers.towers._predictor import FasterCall, compile_faster

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
    """Calls a function during the session."""

    def __init__(self, ask):
        self._ask = ask

    def _before_train(self):
        self.answer = self._ask()


def ask(configure, kit, predictors, question, **changes):
    """Trains with predictors made by `predictors` from the trainer, and calls them."""
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


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (([1j, 2], [3, 4], "hey"), "Input 'x' is of type float32; received complex128. Convert it first"),
        ((X, [3.0, 4.0], "hey"), r"Input 'n' is of type int64; received float64.*np.asarray\(x, np.int64\)"),
        (
            (X, np.array([3, 2**63], np.uint64), "hey"),
            "int64, which cannot represent all received values, from 3",
        ),
        ((X, [3, 4], 5), "Input 'text' is of type object; received int64"),
        (
            ([[1], [2, 3]], [3, 4], "hey"),
            "Input 'x' takes an array, but the value is not convertible: .* inhomogeneous",
        ),
    ],
    ids=["complex", "float", "too large", "number", "ragged"],
)
def test_types_are_checked(configure, kit, values, message):
    with pytest.raises(PredictorInputError, match=message):
        mixed(configure, kit, lambda predict: predict(*values), ["sum"])


def test_inputs_must_be_distinct(configure):
    trainer = SimpleTrainer(configure())
    with pytest.raises(ValueError, match=r"takes each input once, received .*x:0 more than once"):
        trainer.get_predictor(["x", "y", "x:0"], ["error"])


def test_fed_tensors_may_be_the_only_fetches(configure, kit):
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


def test_the_same_tensors_have_the_same_predictor(configure):
    trainer = SimpleTrainer(configure())
    cpu = trainer.get_predictor(["x"], ["mul"], device=-1)
    assert cpu is trainer.get_predictor(["x:0"], ["mul:0"], device="/cpu:0")
    assert cpu is trainer.get_predictor(["x"], ["mul"], device="/device:CPU:0")
    assert cpu is not trainer.get_predictor(["x"], ["mul"])
    assert cpu.outputs[0].device.lower().endswith("cpu:0")


def test_a_late_predictor_shares_a_replica(configure, kit):
    trainer = SimpleTrainer(configure())
    trainer.get_predictor(["x", "y"], ["error"])
    trainer.train()
    trainer.get_predictor(["x"], ["mul"])
    with pytest.raises(TrainerStateError, match="The graph is final"):
        trainer.get_predictor(["x"], ["mul"], device="/cpu:1")


def test_a_predictor_is_on_its_device(configure, kit):
    def predictors(trainer):
        return [trainer.get_predictor(["x", "y"], ["error"], device=device) for device in (None, "/cpu:1")]

    def question(anywhere, there):
        assert there.outputs[0].device.lower().endswith("cpu:1")
        return anywhere(X, Y)[0].tolist(), there(X, Y)[0].tolist()

    for source in ({}, {"data": QueueInput(kit.line_data()), "steps_per_epoch": 3}):
        one, other = ask(configure, kit, predictors, question, **source)
        assert one == other == [-0.5, -0.5]


@pytest.mark.parametrize("device", ["/gpu:77", "nowhere", 77, -2, True, 1.0])
def test_a_missing_device(device, configure):
    with pytest.raises(ConfigError, match=r"devices?="):
        SimpleTrainer(configure()).get_predictor(["x"], ["error"], device=device)


class Scheduled(ModelDesc):
    """Has a rate computed from the step, outside of the towers; and only in training, a tensor "noisy"."""

    def inputs(self):
        return [tf.TensorSpec([None], tf.float32, "x"), tf.TensorSpec([None], tf.float32, "y")]

    def build_graph(self, x, y):
        with tf.variable_scope("linear"):
            weight = tf.get_variable("W", [], initializer=tf.constant_initializer(0.25))
        if self.training:
            tf.identity(x, name="noisy")
        return tf.reduce_mean(tf.square(x * weight - y))

    def optimizer(self):
        tf.get_variable("start_rate", initializer=0.5, trainable=False)
        step = tf.train.get_or_create_global_step()
        return tf.train.GradientDescentOptimizer(
            tf.multiply(0.0, tf.cast(step, tf.float32), name="learning_rate")
        )


@pytest.mark.parametrize("devices", [1, 2])
def test_tensors_shared_by_all_towers_are_found_in_each(devices, configure, kit):
    stats = ScalarStats(["learning_rate", "linear/W"])
    seen = Ask(lambda: predictor())
    runner = InferenceRunner(kit.line_data(), stats)
    config = configure(model=Scheduled(), callbacks=[runner, seen], max_epoch=1)
    trainer = SyncMultiGPUTrainer(config, [f"/cpu:{k}" for k in range(devices)])
    predictor = trainer.get_predictor([], ["linear/W", "learning_rate", "start_rate"])
    with pytest.raises(TensorNotFoundError, match="no tensor 'tower-pred/noisy:0'"):
        trainer.get_predictor(["x"], ["noisy"])
    trainer.train()
    assert seen.answer == [0.25, 0, 0.5]
    assert trainer.monitors.get_latest("validation_linear/W") == 0.25


@pytest.mark.parametrize(
    ("usual", "other", "kept"),
    [(5e-4, 2e-4, "other"), (2e-4, 5e-4, "usual"), (5e-3, 1e-3, "usual")],
    ids=["faster", "slower", "not tried"],
)
def test_the_faster_of_two_functions_is_kept(monkeypatch, usual, other, kept):
    now, calls, made = [0.0], [], []
    monkeypatch.setattr(_predictor.time, "perf_counter", lambda: now[0])

    def function(name, seconds):
        def call(value):
            # The first calls take longer, and a busy machine lengthens some.
            now[0] += seconds * (1 if len(calls) % 3 else 4)
            calls.append(name)
            return value

        return call

    def make_other():
        made.append(True)
        return function("other", other)

    faster = FasterCall(function("usual", usual), make_other)
    assert [faster(value) for value in range(30)] == list(range(30))
    assert set(calls[20:]) == {kept} and len(made) == (usual < 1e-3)


def test_an_error_of_a_function_is_raised_and_it_is_called_again():
    def reciprocal(value):
        return 1 / value

    call = FasterCall(reciprocal, lambda: reciprocal)
    for value in [0.0, 2.0] * 20:
        if value:
            assert call(value) == 0.5
        else:
            with pytest.raises(ZeroDivisionError):
                call(value)


def test_the_results_do_not_depend_on_the_choice_of_a_thread(monkeypatch):
    """TensorFlow's threads flush numbers below 1e-38 to zero; by itself, the calling thread does not."""
    monkeypatch.setattr(_predictor, "_LONGEST_CALL", np.inf)  # both threads are tried, on any machine
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None], "x")
        with tf.Session() as sess:
            half = compile_faster(sess, [x], [x * 0.5])
            results = [half(np.float32([3, 1e-39]))[0].tolist() for _ in range(20)]
    assert results == [[1.5, 0]] * 20
