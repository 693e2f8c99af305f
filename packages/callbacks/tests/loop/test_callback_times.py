"""The cost of callbacks is reported, without cost for the report."""

import gc
import logging
import weakref

import pytest

from towerpack_callbacks import Callback, Every, PeriodicTrigger, StepFetch
from towerpack_callbacks.loop import CallbackTimes, PlainLoop


class Named(Callback):
    """Has a name."""

    def __init__(self, name):
        self.name = name

    def __str__(self):
        return self.name


@pytest.fixture
def epoch(caplog):
    """Plays an epoch in which callbacks take given seconds, and returns what was logged."""
    caplog.set_level(logging.INFO, "towerpack_callbacks")
    callbacks = [Named("fast"), Named("slow")]
    now = [0.0]
    watches = CallbackTimes(["fast", "slow"], callbacks, lambda: now[0])

    def play(number, whole, fast, slow):
        caplog.clear()
        watches.start_epoch()
        watches.of(callbacks[0]).seconds += fast
        watches.of(callbacks[1]).seconds += slow
        now[0] += whole
        watches.end_epoch(number)
        return [(record.levelname, record.getMessage()) for record in caplog.records]

    play.watches = watches
    return play


def test_references_to_errors_and_their_frames_are_dropped(tmp_path):
    class Batch:
        """Something large."""

    held = []

    class Fails(Callback):
        def _trigger_step(self):
            batch = Batch()
            held.append(weakref.ref(batch))
            raise ZeroDivisionError

    loop, fails = PlainLoop([Fails()], 3, 2, tmp_path), []
    try:
        loop.train()
    except ZeroDivisionError:
        fails.append(True)
    gc.collect()
    assert fails and [batch() for batch in held] == [None]
    assert loop.callbacks.raiser_of(ZeroDivisionError()) is None


def test_slow_callbacks_are_named_once(epoch):
    said = epoch(1, whole=20.0, fast=1.9, slow=2.1)
    assert said[0] == ("INFO", "Epoch 1 took 20 s, of which callbacks: slow 2.1 s, fast 1.9 s.")
    assert said[1][0] == "WARNING" and said[1][1].startswith("slow took 10 % of epoch 1 (2.1 of 20 s)")
    assert len(said) == 2
    assert [level for level, _ in epoch(2, whole=20.0, fast=0.0, slow=3.0)] == ["INFO"]


def test_short_times_are_not_logged(epoch):
    assert epoch(1, whole=0.2, fast=0.09, slow=0.0) == []
    assert epoch(2, whole=100.0, fast=0.9, slow=0.0) == []
    assert epoch.watches.last_epoch == {"fast": 0.9}


def spend(*_):
    for _ in range(20_000):
        pass


def seconds_of(callback, log_dir):
    """Trains, and returns what callbacks took of the last epoch, if it is worth telling."""
    loop = PlainLoop([callback], 3, 2, log_dir)
    loop.train()
    return {name: seconds for name, seconds in loop.callbacks.seconds().items() if seconds > 1e-4}


@pytest.mark.parametrize(
    "method",
    [
        "_before_epoch",
        "_after_epoch",
        "_before_run",
        "_after_run",
        "_trigger_step",
        "_trigger",
        "_after_triggers",
    ],
)
def test_time_in_each_method_is_counted(tmp_path, method):
    callback = type("Once", (Callback,), {method: spend})()
    seconds = seconds_of(callback, tmp_path)
    assert list(seconds) == ["Once"]
    assert seconds["Once"] > 1e-4


def test_received_values_are_counted(tmp_path):
    class Receives(Callback):
        def step_fetches(self):
            return [StepFetch(self.trainer.get_tensors(["cost"]), spend)]

    assert list(seconds_of(Receives(), tmp_path)) == ["Receives"]


def test_a_wrapped_callback_counts_under_its_wrapper(tmp_path):
    class Slow(Callback):
        _trigger = spend

    assert list(seconds_of(PeriodicTrigger(Slow(), every=Every(steps=1)), tmp_path)) == [
        "PeriodicTrigger(Slow)"
    ]


def test_a_loop_that_records_gets_each_call(tmp_path):
    class Acts(Callback):
        """Acts after each step."""

        def _trigger_step(self):
            pass

    class Fails(Callback):
        """Fails at the end of the epoch."""

        def _trigger_epoch(self):
            raise ZeroDivisionError

    spans = []
    loop = PlainLoop([Acts(), Fails()], 2, 1, tmp_path)
    loop.loop.record = lambda *span: spans.append(span)
    with pytest.raises(ZeroDivisionError):
        loop.train()
    assert [name for name, *_ in spans].count("Acts._trigger_step") == 2
    assert all(category == "callback" and begin <= end for _, category, begin, end in spans)
