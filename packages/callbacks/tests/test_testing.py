"""The conformance kit detects violations, and all callbacks of this package pass it."""

import inspect
import threading

import numpy as np
import optuna
import pytest
import tensorflow.compat.v1 as tf

import towerpack_callbacks
from towerpack_callbacks import (
    EMA,
    BatchVariance,
    BinaryClassificationStats,
    Callback,
    CallbackFactory,
    CheckNumerics,
    ClipWeights,
    CollapseAlarm,
    CSVWriter,
    DataParallelInferenceRunner,
    DumpTensorAsImage,
    DumpTensors,
    EarlyStopping,
    EnableCallbackIf,
    EstimatedTimeLeft,
    Every,
    GPUMemoryTracker,
    GPUUtilizationTracker,
    GradientNorm,
    GraphProfiler,
    HookToCallback,
    HostMemoryTracker,
    HumanHyperParamSetter,
    HyperParamSetterWithFunc,
    InferenceRunner,
    JSONWriter,
    LogFile,
    MaxSaver,
    MergeAllSummaries,
    MinSaver,
    ModelSaver,
    MovingAverageSummary,
    OptunaPruning,
    PeriodicCallback,
    PeriodicTrigger,
    ProcessTensors,
    ProgressBar,
    ProxyCallback,
    RunOp,
    RunRecord,
    RunUpdateOps,
    SampleGrid,
    SaveState,
    ScalarPrinter,
    ScalarStats,
    ScheduledHyperParamSetter,
    Seed,
    SendStat,
    SessionRunTimeout,
    SimpleMovingAverage,
    StartProcOrThread,
    StatMonitorParamSetter,
    StepFetch,
    StopAfter,
    StopAtCollapse,
    StopTraining,
    TensorBoardProfiler,
    TerminateOnNaN,
    TFEventWriter,
    ThroughputTracker,
    add_moving_summary,
)
from towerpack_callbacks.monitors import ScalarHistory
from towerpack_callbacks.testing import check_callback, idle_seconds


class Stat(Callback):
    """Puts the statistic that others read, and has the model record its own."""

    def _setup_graph(self):
        with tf.name_scope(None):
            (cost,) = self.trainer.get_tensors(["cost"])
            add_moving_summary(cost)
            tf.summary.scalar("cost_now", cost)

    def _trigger(self):
        self.trainer.monitors.put_scalar("stat", self.global_step)

    def produces(self):
        return ["stat"]


class Worker(threading.Thread):
    """Runs until it is stopped."""

    def __init__(self):
        super().__init__()
        self._end = threading.Event()

    def run(self):
        self._end.wait()

    def stop(self):
        self._end.set()


# One way at least to make each public callback; the loop of the kit has "weight", "cost" and "costs".
OURS = {
    "BatchVariance": lambda: BatchVariance("costs"),
    "CSVWriter": CSVWriter,
    "CallbackFactory": lambda: CallbackFactory(trigger=lambda self: None),
    "CheckNumerics": CheckNumerics,
    "ClipWeights": lambda: ClipWeights(0.5),
    "CollapseAlarm": lambda: CollapseAlarm("stat", above=1),
    "DataParallelInferenceRunner": lambda: DataParallelInferenceRunner(
        range(3), ScalarStats("cost"), ["/cpu:0"]
    ),
    "DumpTensorAsImage": lambda: DumpTensorAsImage("costs", map_func=lambda value: value[None]),
    "DumpTensors": lambda: DumpTensors(["cost"]),
    "EMA": EMA,
    "SaveState": lambda: SaveState(history=ScalarHistory()),
    "StopAfter": lambda: StopAfter("9 env_steps"),
    "EarlyStopping": lambda: EarlyStopping("stat", patience=9),
    "OptunaPruning": lambda: OptunaPruning(optuna.create_study().ask(), "stat"),
    "EnableCallbackIf": lambda: EnableCallbackIf(SimpleMovingAverage(["cost"], 2), lambda gate: True),
    "EstimatedTimeLeft": EstimatedTimeLeft,
    "GPUMemoryTracker": GPUMemoryTracker,
    "GPUUtilizationTracker": GPUUtilizationTracker,
    "GradientNorm": lambda: GradientNorm(per_variable=True),
    "GraphProfiler": GraphProfiler,
    "HookToCallback": lambda: HookToCallback(tf.train.SessionRunHook()),
    "HostMemoryTracker": HostMemoryTracker,
    "HumanHyperParamSetter": lambda: HumanHyperParamSetter("weight"),
    "HyperParamSetterWithFunc": lambda: HyperParamSetterWithFunc("weight", lambda epoch, old: 0.5),
    "InferenceRunner": lambda: InferenceRunner(range(3), BinaryClassificationStats("binary", "binary")),
    "JSONWriter": JSONWriter,
    "LogFile": LogFile,
    "MaxSaver": lambda: MaxSaver("stat"),
    "MergeAllSummaries": lambda: MergeAllSummaries(period=2),
    "MinSaver": lambda: MinSaver("stat"),
    "ModelSaver": ModelSaver,
    "MovingAverageSummary": MovingAverageSummary,
    "PeriodicCallback": lambda: PeriodicCallback(MergeAllSummaries(), every_k_epochs=2),
    "PeriodicTrigger": lambda: PeriodicTrigger(ModelSaver(), every_k_steps=2),
    "ProcessTensors": lambda: ProcessTensors(["cost"], lambda cost: None, every="2 steps"),
    "ProgressBar": lambda: ProgressBar(["cost"], every_k_steps=2),
    "ProxyCallback": lambda: ProxyCallback(CheckNumerics()),
    "RunOp": lambda: RunOp(lambda: tf.no_op()),
    "RunUpdateOps": RunUpdateOps,
    "SampleGrid": lambda: SampleGrid("picture", rows=1, columns=2),
    "RunRecord": RunRecord,
    "ScalarPrinter": ScalarPrinter,
    "ScheduledHyperParamSetter": lambda: ScheduledHyperParamSetter("weight", [(0, 0.5), (2, 0.25)]),
    "Seed": lambda: Seed(1),
    "SendStat": lambda: SendStat("true {stat}", "stat"),
    "SessionRunTimeout": lambda: SessionRunTimeout(60_000),
    "SimpleMovingAverage": lambda: SimpleMovingAverage(["cost"], 4),
    "StartProcOrThread": lambda: StartProcOrThread(Worker()),
    "StopAtCollapse": lambda: StopAtCollapse("stat", above=1, patience=9),
    "StatMonitorParamSetter": lambda: StatMonitorParamSetter("weight", "stat", lambda old: old, 0.1, 2),
    "TFEventWriter": TFEventWriter,
    "TensorBoardProfiler": lambda: TensorBoardProfiler(first_step=2, steps=2),
    "TerminateOnNaN": TerminateOnNaN,
    "ThroughputTracker": ThroughputTracker,
}

# Callbacks that act at every step.
NEVER_IDLE = {
    "DumpTensors",
    "EMA",
    "EnableCallbackIf",
    "MovingAverageSummary",
    "PeriodicCallback",
    "SessionRunTimeout",
    "SimpleMovingAverage",
    "TensorBoardProfiler",
}


def test_no_callback_is_forgotten():
    public = {
        name
        for name in towerpack_callbacks.__all__
        if inspect.isclass(thing := getattr(towerpack_callbacks, name))
        and issubclass(thing, Callback)
        and name not in {"Callback", "HyperParamSetter", "Monitor"}
    }
    assert public <= OURS.keys()
    assert all(issubclass(getattr(towerpack_callbacks, name), Callback) for name in OURS)


class Bits(Stat):
    """Also adds a tensor of zeros and ones, and pictures made of random numbers."""

    def _setup_graph(self):
        super()._setup_graph()
        with tf.name_scope(None):
            tf.constant([0, 1], name="binary")
            z = tf.placeholder_with_default(tf.zeros([1, 3]), [None, 3], name="z")
            tf.stack([z, z], axis=1, name="picture")


@pytest.mark.parametrize("name", OURS)
def test_our_own_callbacks_conform(name, tmp_path):
    check_callback(OURS[name], tmp_path, before=lambda: [Bits()])


@pytest.mark.parametrize("name", sorted(OURS.keys() - NEVER_IDLE))
def test_an_idle_callback_costs_next_to_nothing(name, tmp_path):
    """Less than a microsecond where nothing else runs; a callback that is called costs several."""
    assert idle_seconds(OURS[name](), tmp_path, before=[Bits()]) < 3e-6


def test_many_idle_callbacks_together_cost_next_to_nothing(tmp_path):
    """A loop over all of them at each step would take several."""
    idle = [CallbackFactory() for _ in range(100)]
    assert idle_seconds(CallbackFactory(), tmp_path, before=[Bits(), *idle]) < 3e-6


@pytest.mark.parametrize("name", sorted(NEVER_IDLE))
def test_callbacks_that_act_at_every_step_are_never_idle(name, tmp_path):
    with pytest.raises(ValueError, match="acts at every step, so it is never idle"):
        idle_seconds(OURS[name](), tmp_path, before=[Bits()])


def test_ops_after_setup_are_found(tmp_path):
    class Late(Callback):
        def _trigger_step(self):
            tf.constant(1)

    with pytest.raises(RuntimeError, match="finalized"):
        check_callback(Late, tmp_path)


def test_a_forgotten_state_is_found(tmp_path):
    class Forgetful(Callback):
        count = 0

        def _trigger(self):
            self.count += 1

        def state_dict(self):
            return {"count": self.count}

    with pytest.raises(AssertionError, match=r"does not keep its state: saved \{'count': 2\}"):
        check_callback(Forgetful, tmp_path)


def test_a_memory_of_an_earlier_training_is_found(tmp_path):
    class Remembers(Callback):
        def __init__(self):
            self.count = 0

        def _trigger(self):
            self.count += 1

        def state_dict(self):
            return {"count": self.count}

        def load_state_dict(self, state):
            self.count = max(self.count, state["count"])

    with pytest.raises(
        AssertionError, match=r"Remembers keeps state of an earlier training: .* \{'count': 2\}; th"
    ):
        check_callback(Remembers, tmp_path)


def test_a_state_that_is_no_json_is_found(tmp_path):
    class Array(Callback):
        def state_dict(self):
            return {"data": np.zeros(2)}

    with pytest.raises(
        AssertionError, match=r"of Array is not exact in a checkpoint: state\['data'\] is array"
    ):
        check_callback(Array, tmp_path)


def test_a_state_of_tuples_and_numpy_numbers_is_kept(tmp_path):
    class Exact(Callback):
        best = (np.float64(0.5), {3: b"x"})

        def state_dict(self):
            return {"best": self.best}

        def load_state_dict(self, state):
            assert type(state["best"]) is tuple
            assert type(state["best"][0]) is np.float64
            self.best = state["best"]

    check_callback(Exact, tmp_path)


def test_an_undeclared_statistic_is_found(tmp_path):
    class Secret(Callback):
        def _trigger(self):
            self.trainer.monitors.put_scalar("secret", 1)

    with pytest.raises(AssertionError, match="puts secret without declaring it"):
        check_callback(Secret, tmp_path)


def test_an_end_that_needs_a_beginning_is_found(tmp_path):
    class Eager(Callback):
        def _before_train(self):
            self.started = True

        def _after_train(self):
            assert self.started

    with pytest.raises(
        AssertionError, match=r"fails in _after_train when another callback has failed in _bef"
    ):
        check_callback(Eager, tmp_path)


def test_a_training_that_is_stopped_is_found(tmp_path):
    class Stops(Callback):
        def _trigger_epoch(self):
            raise StopTraining

    with pytest.raises(AssertionError, match="Training stopped after 3 of 6 steps with Stops"):
        check_callback(Stops, tmp_path)


def test_a_periodic_fetch_is_idle_in_between(tmp_path):
    class Rare(Callback):
        def step_fetches(self):
            return [StepFetch(self.trainer.get_tensors(["cost"]), every=Every(steps=1000))]

    assert idle_seconds(Rare(), tmp_path) < 1e-6
