"""Throughput, remaining time and memory."""

import logging
import sys

import pytest

from towerpack_callbacks import (
    Callback,
    EstimatedTimeLeft,
    HostMemoryTracker,
    PeriodicTrigger,
    ThroughputTracker,
)


class Clock(Callback):
    """A clock that each step moves by a second, and the time between two epochs by ten."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    def _trigger_step(self):
        self.now += 1.0

    def _trigger_epoch(self):
        self.now += 10.0


class History(Callback):
    """Keeps everything that was put under a name."""

    def __init__(self, name):
        self.name = name

    def _after_train(self):
        monitors = self.trainer.monitors
        self.values = monitors.get_history(self.name) if self.name in monitors else []


@pytest.mark.parametrize(("samples", "unit", "expected"), [(None, "steps", 1.0), (32, "samples", 32.0)])
def test_throughput_excludes_the_time_between_epochs(line, samples, unit, expected):
    tracker, clock = ThroughputTracker(samples), Clock()
    tracker._clock = clock
    history = History(f"Throughput/{unit}_per_second")
    line.run([clock, tracker, history])
    assert history.values == [(3, expected), (6, expected)]


def test_throughput_at_another_period(line):
    tracker, clock = ThroughputTracker(), Clock()
    tracker._clock = clock
    history = History("Throughput/steps_per_second")
    line.run([clock, PeriodicTrigger(tracker, every_k_steps=2), history])
    assert history.values == [(2, 1.0), (4, 1.0), (6, 1.0)]


@pytest.mark.parametrize("samples", [0, -1, float("nan")])
def test_a_batch_has_samples(samples):
    with pytest.raises(ValueError, match="expected a positive number"):
        ThroughputTracker(samples)


def test_the_time_left_counts_callbacks(line, caplog):
    caplog.set_level(logging.INFO, "towerpack_callbacks")
    left, clock = EstimatedTimeLeft(), Clock()
    left._clock = clock
    line.run([clock, left], steps_per_epoch=20, max_epoch=4)
    said = [r.getMessage() for r in caplog.records if "time left" in r.getMessage()]
    assert said == [
        "Estimated time left: 1 minute 30 seconds.",
        "Estimated time left: 1 minute.",
        "Estimated time left: 30 seconds.",
    ]


@pytest.mark.parametrize(("median", "expected"), [(True, 2 * 30), (False, 2 * 150)])
def test_one_slow_epoch_among_three(line, median, expected):
    left, clock = EstimatedTimeLeft(last_k_epochs=3, median=median), Clock()
    left._clock = clock
    seconds = []

    class Slow(Callback):
        def _trigger_epoch(self):
            if self.epoch_num == 2:
                clock.now += 360
            if self.epoch_num == 4:
                seconds.append(left.seconds_left())

    line.run([clock, Slow(), left], steps_per_epoch=20, max_epoch=6)
    assert seconds == [pytest.approx(expected)]


def test_without_a_last_epoch_there_is_no_time_left(line, caplog):
    caplog.set_level(logging.INFO, "towerpack_callbacks")
    line.run([EstimatedTimeLeft()], max_epoch=None, steps=7)
    assert "time left" not in caplog.text


def test_epochs_to_estimate_from():
    with pytest.raises(ValueError, match="whole number of at least 1"):
        EstimatedTimeLeft(last_k_epochs=0)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4, "0 seconds"),
        (61, "1 minute 1 second"),
        (3601, "1 hour"),
        (90061, "1 day 1 hour"),
        (7205.4, "2 hours"),
    ],
)
def test_times_in_words(line, caplog, seconds, text):
    caplog.set_level(logging.INFO, "towerpack_callbacks")
    left, times = EstimatedTimeLeft(), iter([0, seconds, 2 * seconds])
    left._clock = lambda: next(times)
    line.run([left], steps_per_epoch=1, max_epoch=2)
    assert [r.getMessage() for r in caplog.records if "time left" in r.getMessage()] == [
        f"Estimated time left: {text}."
    ]


class Memory(Callback):
    """Keeps the last values."""

    def _after_train(self):
        monitors = self.trainer.monitors
        self.values = [monitors.get_latest(f"HostMemory/{what}_gb") for what in ("available", "process")]


def test_host_memory(line):
    memory = Memory()
    line.run([HostMemoryTracker(), memory])
    available, process = memory.values
    assert available > 0.01
    assert 0.1 < process < 100  # TensorFlow alone is more


def test_without_proc_the_extra_is_required(line, monkeypatch, tmp_path):
    monkeypatch.setattr("towerpack_callbacks.profile._resource_trackers._PROC", tmp_path)
    monkeypatch.setitem(sys.modules, "psutil", None)
    with pytest.raises(ImportError, match=r"pip install towerpack-callbacks\[memory\]"):
        line.run([HostMemoryTracker()])
