"""A callback reused in a second training behaves like a new one."""

import itertools
import logging
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from towerpack_callbacks import (
    Callback,
    EarlyStopping,
    EnableCallbackIf,
    HyperParamSetterWithFunc,
    KeepBest,
    MaxSaver,
    ModelSaver,
    MovingAverageSummary,
    ObjAttrParam,
    PeriodicTrigger,
    ProxyCallback,
    ScheduledHyperParamSetter,
    SimpleMovingAverage,
    StatMonitorParamSetter,
    ThroughputTracker,
)


class Put(Callback):
    """Puts given values of a statistic, one each epoch."""

    def __init__(self, values):
        self._values = values

    def _trigger(self):
        self.trainer.monitors.put_scalar("stat", self._values[self.epoch_num - 1])

    def produces(self):
        return ["stat"]


class Look(Callback):
    """Keeps the weight, and a state, of each epoch, and all of `log_dir` at the end."""

    def __init__(self, of):
        self._of, self.seen = of, []

    def _setup_graph(self):
        [self._weight] = self.graph.get_collection("trainable_variables")

    def _after_train(self):
        self.files = sorted(path.name for path in self.log_dir.iterdir())

    def _trigger(self):
        self.seen.append((float(self.trainer.sess.run(self._weight)), dict(self._of.state_dict())))


STATEFUL = {
    "early": lambda: EarlyStopping("stat", patience=2),
    "decay": lambda: HyperParamSetterWithFunc("weight", lambda _, old: 0.9 * old + 0.1),
    "monitor": lambda: StatMonitorParamSetter("weight", "stat", lambda old: 0.5 * old, 0.1, last_k=2),
    "schedule": lambda: ScheduledHyperParamSetter("weight", [(0, 0.5), (2, 0.25)]),
    "late schedule": lambda: ScheduledHyperParamSetter(
        "weight", [(0, 0.5), (2, 0.25)], set_at_beginning=False
    ),
    "average": lambda: SimpleMovingAverage(["cost"], 9),
    "moving": MovingAverageSummary,
    "saver": lambda: ModelSaver(keep_last=1, keep_best=KeepBest("stat")),
    "max saver": lambda: MaxSaver("stat"),
    "wrapped": lambda: PeriodicTrigger(EarlyStopping("stat", patience=2), every_k_epochs=1),
    "gated": lambda: EnableCallbackIf(EarlyStopping("stat", patience=2), lambda gate: True),
    "twice wrapped": lambda: ProxyCallback(PeriodicTrigger(ModelSaver(), every_k_steps=2, every_k_epochs=1)),
}
VALUES = st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0, float("nan")]), min_size=4, max_size=4)


@pytest.mark.slow
@pytest.mark.parametrize("name", STATEFUL)
@settings(max_examples=2, phases=[Phase.generate])
@given(first=VALUES, second=VALUES)
def test_a_used_callback_is_as_a_new_one(name, first, second, straight_line, tmp_path_factory):
    def train(callback, values):
        look = Look(callback)
        place = tmp_path_factory.mktemp("run")
        done = straight_line(place).run(
            [Put(values), callback, look], steps_per_epoch=2, max_epoch=len(values)
        )
        return done, repr(look.seen), look.files

    used = STATEFUL[name]()
    train(used, first)
    assert train(used, second) == train(STATEFUL[name](), second)


class Replay(Callback):
    """A callback that is also a flow: its position belongs to the input."""

    def __init__(self):
        self.place = self.seen = 0

    def __iter__(self):
        return iter(())

    def reset_state(self):
        """Part of the flow's interface."""

    def state_dict(self):
        return {"place": self.place}

    def load_state_dict(self, state):
        self.place = state["place"]

    def _trigger_step(self):
        self.place += 1
        self.seen += 1


class CountingReplay(Replay):
    """Has a separate callback state, which a new training resets."""

    def callback_state_dict(self):
        return {"seen": self.seen}

    def load_callback_state_dict(self, state):
        self.seen = state["seen"]


@pytest.mark.parametrize(("kind", "seen"), [(Replay, 4), (CountingReplay, 2)])
@pytest.mark.parametrize("around", [lambda callback: callback, ProxyCallback])
def test_a_flow_among_callbacks_keeps_its_place(kind, seen, around, straight_line, tmp_path):
    replay = kind()
    for _ in range(2):
        straight_line(tmp_path).run([around(replay)], steps_per_epoch=2, max_epoch=1)
    assert (replay.place, replay.seen) == (4, seen)


def test_a_callback_is_new_also_outside_of_the_wrapper_that_it_was_in(line, straight_line, tmp_path):
    stop = EarlyStopping("stat", patience=1)
    assert line.run([Put([1, 1, 1]), PeriodicTrigger(stop, every_k_epochs=1)], max_epoch=3) == 6
    assert straight_line(tmp_path).run([Put([2, 2, 2]), stop], max_epoch=3) == 6


def test_a_trainings_attribute_is_put_back_unless_someone_else_has_set_it(straight_line, tmp_path):
    flow = SimpleNamespace(rate=1.0)
    half = HyperParamSetterWithFunc(ObjAttrParam(flow, "rate"), lambda _, old: old / 2)
    straight_line(tmp_path).run([half], max_epoch=3)
    assert flow.rate == 1 / 16
    straight_line(tmp_path).run([half], max_epoch=1)
    assert flow.rate == 1 / 4
    flow.rate = 3.0
    straight_line(tmp_path).run([half], max_epoch=1)
    assert flow.rate == 3 / 4


def test_a_failed_training_leaves_no_time_behind(straight_line, tmp_path):
    tracker = ThroughputTracker()
    tracker._clock = itertools.count(0, 100).__next__

    class Fail(Callback):
        def _trigger(self):
            raise ZeroDivisionError

    class Read(Callback):
        def _trigger(self):
            self.value = self.trainer.monitors.get_latest("Throughput/steps_per_second")

    with pytest.raises(ZeroDivisionError):
        straight_line(tmp_path).run([Fail(), tracker])
    straight_line(tmp_path).run([tracker, read := Read()], max_epoch=1)
    assert read.value == pytest.approx(3 / 100)


def test_a_value_that_a_resumed_run_keeps_is_not_announced(straight_line, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    setter = HyperParamSetterWithFunc("weight", lambda _, old: old + 1, every="2 epochs")

    class Resume(Callback):
        def _setup_graph(self):
            setter.load_state_dict({"value": 3.0})

    straight_line(tmp_path).run([setter, Resume()], max_epoch=1)
    assert "weight is" not in caplog.text
    straight_line(tmp_path).run([setter, Resume()], max_epoch=3)
    assert caplog.text.count("weight is") == 1


def test_a_schedule_that_waits_for_its_first_change_says_and_keeps_nothing_before(
    straight_line, tmp_path, caplog
):
    caplog.set_level(logging.INFO)
    schedule = [(0, 0.5), (9, 0.25)]
    setter = ScheduledHyperParamSetter("weight", schedule, set_at_beginning=False)
    straight_line(tmp_path).run([setter], max_epoch=1)
    assert "weight is" not in caplog.text
    assert setter.state_dict() == {}


def test_a_state_with_arrays_is_forgotten_too(line):
    class Arrays(Callback):
        def __init__(self):
            self.seen = np.zeros(2)

        def _trigger(self):
            self.seen = self.seen + 1

        def state_dict(self):
            return {"seen": self.seen}

        def load_state_dict(self, state):
            self.seen = state["seen"]

    callback = Arrays()
    for _ in range(2):
        line.run([callback], max_epoch=3)
        assert callback.seen.tolist() == [3, 3]
