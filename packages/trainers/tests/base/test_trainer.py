"""The loop: order, counters, custom graphs and steps, and its end."""

import contextlib
import gc
import logging
import traceback
import weakref

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback, MaxSaver, ModelSaver, StatisticError, StopTraining
from towerpack_inputsource import DummyConstantInput, QueueInput
from towerpack_trainers import (
    ConfigError,
    EndOfInputError,
    SimpleTrainer,
    TrainConfig,
    Trainer,
    TrainerStateError,
)


def epoch(number, steps, done):
    """The calls that a `Recorder` records in an epoch that begins with `done` finished steps."""
    first, last = steps[0], steps[-1]
    calls = [("before_epoch", number, first - 1, done)]
    calls += [("trigger_step", number, step, done + 1 + step - first) for step in steps]
    end = done + len(steps)
    return [*calls, ("after_epoch", number, last, end), ("trigger_epoch", number, last, end)]


def test_the_loop_and_its_counters(kit, configure):
    recorder = kit.Recorder()
    SimpleTrainer(configure(callbacks=[recorder], steps_per_epoch=2)).train()
    before, first, *rest = recorder.calls
    assert before == ("before_train", 0, -1, 0)
    assert first == ("before_epoch", 1, -1, 0)
    assert rest == [
        *epoch(1, [0, 1], 0)[1:],
        ("before_epoch", 2, 1, 2),
        *epoch(2, [0, 1], 2)[1:],
        ("after_train", 2, 1, 4),
    ]


def test_a_trainer_shows_its_position(configure):
    trainer = SimpleTrainer(configure(steps_per_epoch=2))
    before = repr(trainer)
    trainer.train()
    place = f", in {trainer.log_dir}" if trainer.log_dir else ""
    assert before == f"<SimpleTrainer: epoch 0 of 2, step 0{place}>"
    assert repr(trainer) == f"<SimpleTrainer: epoch 2 of 2, step 4{place}>"
    assert repr(SimpleTrainer()) == "<SimpleTrainer: without a configuration>"


def test_epochs_may_start_anywhere(kit, configure):
    recorder = kit.Recorder()
    SimpleTrainer(configure(callbacks=[recorder], steps_per_epoch=1, starting_epoch=3, max_epoch=4)).train()
    assert [call[:2] for call in recorder.calls if call[0] == "trigger_step"] == [
        ("trigger_step", 3),
        ("trigger_step", 4),
    ]
    assert recorder.calls[0] == ("before_train", 2, -1, 0)


def test_nothing_left_to_train(kit, configure, caplog):
    caplog.set_level(logging.WARNING)  # visible with any settings
    recorder = kit.Recorder()
    SimpleTrainer(configure(callbacks=[recorder], starting_epoch=3, max_epoch=2)).train()
    assert [call[0] for call in recorder.calls] == ["before_train", "after_train"]
    assert "Nothing left to train: epoch 2 of 2 is done. Use a larger max_epoch to continue." in caplog.text


def test_an_epoch_may_be_longer_or_shorter_than_the_data(configure):
    for steps in (1, 7, 23):
        trainer = SimpleTrainer(configure(steps_per_epoch=steps))
        trainer.train()
        assert trainer.loop.global_step == 2 * steps


def test_one_pass_of_the_data_is_an_epoch(kit, configure):
    trainer = SimpleTrainer(configure(dataflow=kit.line_data(batches=3)))
    trainer.train()
    assert trainer.loop.global_step == 6


def test_an_unknown_length_must_be_given(configure):
    class Endless:
        def __iter__(self):
            return iter([])

    for config in (configure(dataflow=Endless()), configure(data=DummyConstantInput([(4,), (4,)]))):
        with pytest.raises(
            ConfigError, match=r"no steps_per_epoch, and the length of one pass of the data is unknown"
        ):
            SimpleTrainer(config).train()


def test_no_data_at_all(configure):
    with pytest.raises(ConfigError, match="The data is empty: one pass has no datapoint"):
        SimpleTrainer(configure(dataflow=[])).train()


def test_training_twice_is_refused(configure):
    trainer = SimpleTrainer(configure())
    trainer.train()
    with pytest.raises(TrainerStateError, match=r"has already trained. Make a new one, with resume="):
        trainer.train()


def test_training_within_training_is_refused(configure):
    class Again(Callback):
        def _trigger(self):
            self.trainer.train()

    with pytest.raises(TrainerStateError, match="has already trained"):
        SimpleTrainer(configure(callbacks=[Again()])).train()


# ---- without a model


def count_up(steps=0):
    """A custom graph that adds 1 to "total" at each step; it may count its steps itself."""
    graph = tf.Graph()
    with graph.as_default():
        total = tf.get_variable("total", [], initializer=tf.zeros_initializer())
        ops = [total.assign_add(1.0, read_value=False)]
        if steps:
            ops.append(tf.train.get_or_create_global_step().assign_add(steps, read_value=False))
        return tf.group(ops, name="up")


@pytest.fixture
def own(configure):
    """Makes a configuration without a model."""
    return lambda **changes: configure(**{"model": None, "dataflow": None, "steps_per_epoch": 3, **changes})


@pytest.mark.parametrize("counts", [0, 1], ids=["we count", "the graph counts"])
def test_a_custom_graph(kit, own, counts):
    trainer = Trainer(own(callbacks=[kept := kit.Weights()]))
    trainer.train_op = op = count_up(counts)
    assert trainer.graph is op.graph
    trainer.train()
    assert (kept.values["total"], kept.values["global_step"], trainer.loop.global_step) == (6, 6, 6)


def test_a_graph_is_trained_once(own):
    op = count_up()
    for trainer in (Trainer(own()), Trainer(own())):
        trainer.train_op = op
        if not op.graph.finalized:
            trainer.train()
    with pytest.raises(TrainerStateError, match="The graph is final"):
        trainer.train()


def test_a_custom_graph_with_an_input(kit, own):
    source = QueueInput(kit.line_data())
    with tf.Graph().as_default():
        source.setup([tf.TensorSpec([None], tf.float32, "x"), tf.TensorSpec([None], tf.float32, "y")])
        x, _ = source.get_input_tensors()
        seen = tf.get_variable("seen", [], initializer=tf.zeros_initializer())
        op = seen.assign_add(tf.reduce_sum(x), read_value=False)
    trainer = Trainer(own(data=source, steps_per_epoch=None, callbacks=[kept := kit.Weights()], max_epoch=1))
    trainer.train_op = op
    trainer.train()
    assert kept.values["seen"] == pytest.approx(sum(x.sum() for x, _ in kit.line_data()), rel=1e-5)


def test_an_input_that_was_not_set_up(kit, own):
    trainer = Trainer(own(data=QueueInput(kit.line_data())))
    trainer.train_op = count_up()
    with pytest.raises(RuntimeError, match=r"hooks\(\) was called before setup\(\)"):
        trainer.train()


def test_a_plain_trainer_feeds_no_dataflow(own, kit):
    with pytest.raises(ConfigError, match="Trainer itself has no model to feed from dataflow="):
        Trainer(own(dataflow=kit.line_data()))


def test_a_subclass_may_use_a_dataflow(own, kit):
    class Reader(Trainer):
        def _setup(self):
            super()._setup()
            self.first = next(iter(self.config.dataflow))
            self.train_op = count_up()

    trainer = Reader(own(dataflow=kit.line_data()))
    trainer.train()
    np.testing.assert_array_equal(trainer.first[0], next(iter(kit.line_data()))[0])


def test_a_step_assigned_to_the_trainer(own):
    trainer = Trainer(own())
    trainer.train_op = count_up()
    run_step, steps = trainer.run_step, []

    def noted_step():
        steps.append(trainer.loop.global_step)
        run_step()

    trainer.run_step = noted_step
    trainer.train()
    assert steps == list(range(trainer.loop.global_step)) and steps


def test_a_trainer_without_train_op(own):
    with pytest.raises(
        TrainerStateError, match=r"Trainer has no train_op. Set trainer.train_op, or override _setup"
    ):
        Trainer(own()).train()


@pytest.mark.parametrize("wrong", [3, "up", None, [tf.no_op]], ids=["3", "up", "None", "list"])
def test_a_train_op_must_be_an_op(own, wrong):
    with pytest.raises(TypeError, match="train_op must be a TensorFlow op of a graph"):
        Trainer(own()).train_op = wrong


def test_an_eager_tensor_cannot_be_a_train_op(own):
    with pytest.raises(TypeError, match="train_op must be a TensorFlow op of a graph"):
        Trainer(own()).train_op = tf.constant(1)


def test_a_train_op_of_another_graph_than_the_one_built(configure, own):
    with pytest.raises(ConfigError, match="train_op 'up' is not in the graph of this trainer"):
        SimpleTrainer(configure()).train_op = count_up()


class Own(Trainer):
    """Builds its graph itself."""

    def _setup(self):
        self.total = tf.get_variable("total", [], initializer=tf.zeros_initializer())
        self.train_op = self.total.assign_add(1.0)


def test_a_subclass_builds_in_setup(kit, own):
    Own(own(callbacks=[kept := kit.Weights()])).train()
    assert kept.values["total"] == 6


def test_a_subclass_overrides_the_step(kit, own):
    class Both(Own):
        def _setup(self):
            super()._setup()
            self.double = self.total.assign(self.total * 2)

        def run_step(self):
            self.hooked_sess.run(self.train_op)
            self.doubled = self.hooked_sess.run(self.double)

    trainer = Both(own(callbacks=[kept := kit.Weights(), recorder := kit.Recorder()], max_epoch=1))
    trainer.train()
    assert trainer.doubled == kept.values["total"] == 14
    assert trainer.loop.global_step == kept.values["global_step"] == 6
    assert [call[2:] for call in recorder.calls if call[0] == "trigger_step"] == [(0, 2), (1, 4), (2, 6)]


def test_without_a_model_there_is_no_evaluation(own):
    with pytest.raises(TrainerStateError, match="Own cannot build another replica: it has no model"):
        Own(own()).build_inference_tower([], "check")


# ---- the end of a training

PHASES = [
    "_before_train",
    "_before_epoch",
    "_before_run",
    "_after_run",
    "_trigger_step",
    "_after_epoch",
    "_trigger_epoch",
]
PHASES += ["_trigger", "_after_triggers"]


class MyError(Exception):
    """An error that only these tests raise."""


@pytest.mark.parametrize(
    "error", [MyError("mine"), KeyboardInterrupt(), SystemExit(3)], ids=lambda e: type(e).__name__
)
@pytest.mark.parametrize("phase", PHASES)
def test_an_error_in_any_phase_is_raised_unchanged_after_all_callbacks(kit, configure, phase, error):
    first, last = kit.Recorder(), kit.Recorder()
    failing = kit.FailAt(phase, error)
    with pytest.raises(type(error)) as caught:
        SimpleTrainer(configure(callbacks=[first, failing, last])).train()
    assert caught.value is error
    assert any(frame.name == "fail" for frame in traceback.extract_tb(error.__traceback__))
    assert first.calls[-1][0] == last.calls[-1][0] == "after_train"


@pytest.mark.parametrize("phase", PHASES)
def test_stop_training_in_any_phase_ends_without_an_error(kit, configure, phase):
    recorder = kit.Recorder()
    SimpleTrainer(configure(callbacks=[kit.FailAt(phase, StopTraining("enough")), recorder])).train()
    assert recorder.calls[-1][0] == "after_train"
    assert recorder.calls[-1][1] <= 1


def test_an_error_in_setup_comes_before_anything_starts(kit, configure):
    class Broken(Callback):
        def _setup_graph(self):
            raise MyError("mine")

    recorder = kit.Recorder()
    with pytest.raises(MyError, match="mine"):
        SimpleTrainer(configure(callbacks=[recorder, Broken()])).train()
    assert recorder.calls == []


def test_an_error_after_training_is_raised_after_all_callbacks(kit, configure):
    recorder = kit.Recorder()
    with pytest.raises(MyError, match="mine"):
        SimpleTrainer(configure(callbacks=[kit.FailAt("_after_train", MyError("mine")), recorder])).train()
    assert recorder.calls[-1][0] == "after_train"


def test_the_first_error_counts(kit, configure, caplog):
    failing = [kit.FailAt("_trigger_step", MyError("first")), kit.FailAt("_after_train", OSError("second"))]
    with pytest.raises(MyError, match="first"):
        SimpleTrainer(configure(callbacks=failing)).train()
    assert "A callback failed in after_train, after the training had failed" in caplog.text
    assert "second" in caplog.text


def test_a_stop_is_checkpointed_like_the_end_of_its_epoch(kit, configure, tmp_path):
    callbacks = [ModelSaver(), kit.FailAt("_trigger_epoch", StopTraining("enough"))]
    SimpleTrainer(configure(callbacks=callbacks)).train()
    assert (tmp_path / "run" / "latest").resolve().name == "model-5"


def test_an_op_added_too_late_is_explained(configure):
    class Late(Callback):
        def _before_train(self):
            tf.constant(1)

    with pytest.raises(
        TrainerStateError, match=r"when the graph is final. Make ops in _setup_graph"
    ) as caught:
        SimpleTrainer(configure(callbacks=[Late()])).train()
    assert "finalized" in str(caught.value.__cause__)


def test_a_statistic_without_a_producer(configure):
    with pytest.raises(
        StatisticError, match=r"MaxSaver\('accuracy'\) reads the statistic 'accuracy', which no callback"
    ):
        SimpleTrainer(configure(callbacks=[MaxSaver("accuracy")])).train()


def test_a_nan_cost_does_not_stop_the_training(kit, configure):
    class Model(kit.Line):
        def build_graph(self, x, y):
            return super().build_graph(x, y) * float("nan")

    trainer = SimpleTrainer(configure(model=Model()))
    trainer.train()
    assert trainer.loop.global_step == 10


# ---- errors in the data


class Failing:
    """Some datapoints, then an error or the end."""

    def __init__(self, datapoints, error=None):
        self.datapoints, self.error = datapoints, error

    def __iter__(self):
        yield from self.datapoints
        if self.error is not None:
            raise self.error


@pytest.mark.parametrize(
    "error", [MyError("mine"), ValueError("mine"), SystemExit("mine")], ids=lambda e: type(e).__name__
)
def test_an_error_in_the_data_is_raised_unchanged(kit, configure, error):
    recorder = kit.Recorder()
    config = configure(dataflow=Failing(kit.line_data(), error), steps_per_epoch=100, callbacks=[recorder])
    with pytest.raises(type(error), match="mine") as caught:
        SimpleTrainer(config).train()
    assert caught.value is error
    assert traceback.extract_tb(caught.value.__traceback__)[-1].line == "raise self.error"
    assert error.__cause__ is error.__context__ is None
    if isinstance(error, Exception):
        assert "Datapoint 5" in error.__notes__[0]
    assert recorder.calls[-1] == ("after_train", 1, recorder.calls[-1][2], recorder.calls[-1][3])


def test_a_session_does_not_treat_an_error_of_the_data_as_its_end(kit, configure):
    error = tf.errors.OutOfRangeError(None, None, "mine")
    with pytest.raises(RuntimeError, match=r"the flow raised OutOfRangeError \(mine\)"):
        SimpleTrainer(configure(dataflow=Failing(kit.line_data(), error), steps_per_epoch=100)).train()


@pytest.mark.parametrize(
    ("datapoint", "message"),
    [
        ([np.zeros(4, np.float32)], r"Datapoint 5 .*received 1 components, declared are 2: \['x', 'y'\]"),
        (
            [np.zeros(4, np.float32), np.zeros(4)],
            r"Datapoint 5 .*component 1 \('y'\): received dtype float64, declared is float32",
        ),
        (
            [np.zeros((4, 1), np.float32), np.zeros(4, np.float32)],
            r"Datapoint 5 .*component 0 \('x'\): received shape \(4, 1\), declared is \(None,\)",
        ),
    ],
    ids=["number", "dtype", "shape"],
)
def test_an_unsuitable_datapoint_is_named(kit, configure, datapoint, message):
    with pytest.raises(ValueError, match=message):
        SimpleTrainer(configure(dataflow=[*kit.line_data(), datapoint])).train()


def test_an_early_end_of_the_input_is_an_error(kit, configure):
    with tf.Graph().as_default() as graph:
        step = tf.data.make_one_shot_iterator(tf.data.Dataset.range(3)).get_next()
    trainer = Trainer(
        TrainConfig(steps_per_epoch=5, max_epoch=1, log_dir=None, monitors=[], extra_callbacks=[])
    )
    trainer.train_op = step
    with pytest.raises(
        EndOfInputError, match=r"ended at step 3 \(epoch 1\), before the training did"
    ) as caught:
        trainer.train()
    assert isinstance(caught.value.__cause__, tf.errors.OutOfRangeError)
    assert trainer.graph is graph


def test_a_declared_end_of_the_input_is_not_an_error(kit, configure):
    source = QueueInput(kit.line_data(batches=7), infinite=False)
    recorder = kit.Recorder()
    trainer = SimpleTrainer(configure(data=source, steps_per_epoch=5, callbacks=[recorder]))
    trainer.train()
    assert trainer.loop.global_step == 7
    assert recorder.calls[-1] == ("after_train", 2, 1, 7)  # the seventh step is the second of its epoch


def test_explain_describes_the_training_without_a_session(configure):
    trainer = SimpleTrainer(configure(callbacks=[ModelSaver()], extra_callbacks=None))
    text = trainer.explain()
    assert text.splitlines()[0] == "SimpleTrainer on one device, epochs 1 to 2 of 5 steps"
    assert "ModelSaver\n       triggered after every epoch" in text
    assert "with the step, every step: MovingAverageSummary/update" in text
    assert trainer.explain() == text
    trainer.train()


def test_explain_raises_the_errors_of_train(configure):
    with pytest.raises(StatisticError, match="'nothing', which no callback produces"):
        SimpleTrainer(configure(callbacks=[MaxSaver("nothing")])).explain()


def test_arguments_replace_a_config(tmp_path, kit):
    recorder = kit.Recorder()
    trainer = Trainer(callbacks=[recorder], steps_per_epoch=2, max_epoch=1, log_dir=None, extra_callbacks=[])
    with tf.Graph().as_default():
        variable = tf.get_variable("v", [], initializer=tf.zeros_initializer())
        trainer.train_op = tf.assign_add(variable, 1.0)
    trainer.train()
    assert [what for what, *_ in recorder.calls].count("trigger_step") == 2
    with pytest.raises(ConfigError, match="a TrainConfig and also max_epoch"):
        Trainer(TrainConfig(log_dir=None), max_epoch=3)
    with pytest.raises(ConfigError, match="takes a TrainConfig, received 3"):
        Trainer(3)


def test_a_failed_trainer_keeps_no_failed_objects(configure):
    held = []

    class Fails(Callback):
        def _trigger_step(self):
            batch = np.zeros(4)
            held.append(weakref.ref(batch))
            raise ZeroDivisionError

    trainer = SimpleTrainer(configure(callbacks=[Fails()]))
    with contextlib.suppress(ZeroDivisionError):
        trainer.train()
    gc.collect()
    assert [batch() for batch in held] == [None]
    assert trainer.global_step == 1
