"""The end of other data than the training input does not end the training: its error keeps its type."""

import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback, Every, HookToCallback, Inferencer, InferenceRunner, StepFetch
from towerpack_inputsource import FeedInput, QueueInput, StagingInput
from towerpack_trainers import EndOfInputError, ModelDesc, SimpleTrainer
from towerpack_trainers.step import SpeedTrial

STEPS = 12


@pytest.fixture
def fused(monkeypatch):
    """Steps run several in a call, at once."""
    monkeypatch.setattr(SpeedTrial, "SINGLES", 0)
    monkeypatch.setattr(SpeedTrial, "is_faster", True)


class Reads(Callback):
    """Has a separate dataset of four numbers, and takes one in a method."""

    def __init__(self, method="_trigger_step"):
        self.method, self.taken = method, 0
        if method not in {"every step", "every other step", "in the graph"}:
            setattr(self, method, self._take)

    def overrides(self, method):
        return method == self.method or super().overrides(method)

    def _setup_graph(self):
        self.number = tf.data.make_one_shot_iterator(tf.data.Dataset.range(4)).get_next()

    def _take(self, *_):
        self.taken += 1
        self.trainer.sess.run(self.number)

    def step_fetches(self):
        if self.method == "in the graph":
            return [StepFetch(self.number.op)]
        steps = {"every step": 1, "every other step": 2}.get(self.method)
        return [] if steps is None else [StepFetch(self.number, lambda value: None, Every(steps=steps))]


def sources(kit):
    return {
        "infinite": QueueInput(kit.line_data()),
        "finite": QueueInput(kit.line_data(100), infinite=False),
        "fed": FeedInput(kit.line_data(100), infinite=False),
    }


METHODS = ["_before_run", "_after_run", "_trigger_step", "_before_epoch", "_after_epoch", "_trigger_epoch"]
METHODS += ["_trigger", "_after_triggers", "every step", "every other step", "in the graph"]


@pytest.mark.parametrize("name", ["infinite", "finite", "fed"])
@pytest.mark.parametrize("method", METHODS)
def test_a_callbacks_own_data_is_not_the_input(kit, configure, fused, method, name):
    data, reads, recorder = sources(kit)[name], Reads(method), kit.Recorder()
    trainer = SimpleTrainer(
        configure(data=data, callbacks=[reads], extra_callbacks=[recorder], steps_per_epoch=4, max_epoch=20)
    )
    with pytest.raises(tf.errors.OutOfRangeError) as caught:
        trainer.train()
    [note] = caught.value.__notes__
    assert "It was raised by the callback Reads" in note, note
    assert "not the training input" in note
    assert recorder.calls[-1][0] == "after_train"


def test_the_origin_is_known_in_unobserved_steps_too(kit, configure, fused):
    trainer = SimpleTrainer(
        configure(
            data=QueueInput(kit.line_data(100), infinite=False),
            callbacks=[Reads("in the graph")],
            steps_per_epoch=50,
        )
    )
    with pytest.raises(tf.errors.OutOfRangeError) as caught:
        trainer.train()
    assert "Reads" in caught.value.__notes__[0]
    assert (trainer.loop.global_step, trainer.loop.local_step) == (4, 4)


class OwnError(Exception):
    """An error that only these tests raise."""


@pytest.mark.parametrize("method", METHODS[:8])
@pytest.mark.parametrize("kind", [StopIteration, tf.errors.CancelledError, tf.errors.AbortedError])
def test_other_errors_with_a_meaning_for_a_session(kit, configure, method, kind):
    error = kind("mine") if kind is StopIteration else kind(None, None, "mine")
    with pytest.raises(kind) as caught:
        SimpleTrainer(configure(callbacks=[kit.FailAt(method, error)])).train()
    assert caught.value is error


class Ends(tf.train.SessionRunHook):
    """A user's hook with separate data."""

    def before_run(self, run_context):
        raise tf.errors.OutOfRangeError(None, None, "mine")


def test_a_users_hook_is_not_the_input(kit, configure):
    data = FeedInput(kit.line_data(100), infinite=False)
    with pytest.raises(tf.errors.OutOfRangeError, match="mine") as caught:
        SimpleTrainer(configure(data=data, callbacks=[HookToCallback(Ends())])).train()
    assert "the callback Ends" in caught.value.__notes__[0]


@pytest.mark.parametrize(
    "make",
    [QueueInput, FeedInput, lambda flow, infinite: StagingInput(QueueInput(flow, infinite=infinite))],
    ids=["queued", "fed", "staged"],
)
def test_an_end_of_the_input_is_still_detected(kit, configure, make):
    data = make(kit.line_data(7), infinite=False)
    trainer = SimpleTrainer(configure(data=data, steps_per_epoch=5, callbacks=[kit.Recorder()]))
    trainer.train()
    assert trainer.loop.global_step == 7


class WithNoise(ModelDesc):
    """A model that contains a separate dataset: four numbers for each replica."""

    def inputs(self):
        return [tf.TensorSpec([None], tf.float32, "x"), tf.TensorSpec([None], tf.float32, "y")]

    def build_graph(self, x, y):
        number = 8 if self.training else 4
        numbers = tf.data.Dataset.range(number)
        noise = tf.data.make_one_shot_iterator(numbers.repeat() if self.training else numbers).get_next()
        slope = tf.get_variable("slope", [], initializer=tf.zeros_initializer())
        error = tf.square(x * slope - y) + 0.0 * tf.cast(noise, tf.float32)
        return tf.reduce_mean(error, name="cost")

    def optimizer(self):
        return tf.train.GradientDescentOptimizer(0.05)


class Batches(Inferencer):
    """Counts the batches of an evaluation."""

    def __init__(self):
        self.rounds = []

    def _get_fetches(self):
        return ["cost"]

    def _before_inference(self):
        self.count = 0

    def _on_fetches(self, values, batch_size):
        self.count += 1

    def _after_inference(self):
        self.rounds.append(self.count)
        return {}

    def produces(self):
        return []


@pytest.mark.parametrize("make", [lambda data: data, lambda data: QueueInput(data, infinite=False)])
def test_an_evaluation_ends_only_with_its_input(kit, configure, make):
    count = Batches()
    runner = InferenceRunner(make(kit.line_data(7)), count)
    with pytest.raises(tf.errors.OutOfRangeError):
        SimpleTrainer(configure(model=WithNoise(), callbacks=[runner])).train()
    assert count.rounds == []


@pytest.mark.parametrize("make", [lambda data: data, lambda data: QueueInput(data, infinite=False)])
def test_an_evaluation_is_one_pass(kit, configure, make):
    count = Batches()
    SimpleTrainer(configure(callbacks=[InferenceRunner(make(kit.line_data(7)), count)])).train()
    assert count.rounds == [7, 7]


def test_the_models_own_data_is_not_named_as_the_input(kit, configure):
    class Ends(WithNoise):
        def build_graph(self, x, y):
            number = tf.data.make_one_shot_iterator(tf.data.Dataset.range(4)).get_next()
            return super().build_graph(x, y + 0.0 * tf.cast(number, tf.float32))

    data = QueueInput(kit.line_data(100), infinite=False)
    with pytest.raises(EndOfInputError, match="IteratorGetNext"):
        SimpleTrainer(configure(model=Ends(), data=data, steps_per_epoch=STEPS)).train()
