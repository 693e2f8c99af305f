"""Which of data and model is the slower one."""

import itertools
import logging
import re

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_inputsource import Buffer, DummyConstantInput, InputStatus, QueueInput, ThreadActivity
from towerpack_trainers import SimpleTrainer
from towerpack_trainers.reports import describe_epoch, sampling_period


def spent(flow, put):
    return InputStatus("QueueInput", (), (ThreadActivity("t", "flow", 0.0, flow, put),))


@pytest.mark.parametrize(
    ("flow", "put", "verdict"),
    [
        (99.0, 1.0, "the data is the bottleneck: 99% of its time"),
        (10.0, 90.0, "the model is the bottleneck: 10% of its time"),
        (75.0, 25.0, "data and model are about even: 75% of its time"),
    ],
)
def test_verdicts(flow, put, verdict):
    assert describe_epoch(spent(flow, put)).startswith(verdict)


@pytest.mark.parametrize("share", [0.7, 0.3])
def test_steps_that_mostly_wait_show_that_the_data_is_slower(share):
    assert describe_epoch(spent(share, 1 - share), waited=0.96).startswith(
        "the data is the bottleneck: steps"
    )


def test_a_queue_that_is_filled_shows_that_the_data_is_not_slower():
    """Of a loaded machine: 49.7 of 50 datapoints were there, and three steps waited for the processor."""
    assert describe_epoch(spent(0.3, 99.7), waited=0.84, filled=0.99).startswith(
        "the model is the bottleneck"
    )
    assert describe_epoch(spent(99.0, 1.0), waited=0.0, filled=0.6).startswith(
        "data and model are about even"
    )
    assert describe_epoch(spent(99.0, 1.0), waited=0.9, filled=0.02).startswith("the data is the bottleneck")


def test_few_samples_decide_nothing():
    assert describe_epoch(spent(30.0, 70.0), waited=0.84, samples=2).startswith("the model is the bottleneck")
    assert describe_epoch(spent(30.0, 70.0), waited=0.84, samples=3).startswith("the data is the bottleneck")


def test_the_share_that_steps_waited_is_told():
    assert describe_epoch(spent(10.0, 90.0), 0.034) == (
        "the model is the bottleneck: steps waited for data 3% of their time, and 10% of its time the input "
        "was at work on the next datapoint"
    )


def test_nothing_is_said_of_an_input_without_threads():
    assert describe_epoch(InputStatus("DummyConstantInput")) is None


def set_clocks(monkeypatch, seconds):
    """Replaces the clocks in a graph: the one behind the input is ahead by `seconds` at every run."""
    times = {"step_begins": 100.0, "input_came": 100.0 + seconds}
    real = tf.timestamp

    def timestamp(name=None):
        return tf.constant(times[name], tf.float64) if name in times else real(name)

    monkeypatch.setattr(tf, "timestamp", timestamp)


def reported(configure, caplog, flow, put, fill=None, steps=20):
    """The lines on two epochs, in each of which the input's thread spends these seconds."""
    caplog.set_level(logging.INFO, logger="towerpack_trainers")
    source, calls = QueueInput([[np.ones(4, np.float32)] * 2]), itertools.count()

    def status():
        finished = next(calls) + 1  # more at each call: only the growth counts
        return spent(finished * flow, finished * put)._replace(buffers=(Buffer("queue", fill, 50),))

    source.status = status
    SimpleTrainer(configure(data=source, steps_per_epoch=steps, max_epoch=2)).train()
    return [message for message in caplog.messages if message.startswith("epoch ")]


def test_a_flow_that_waits_for_the_model_never_is_the_bottleneck(configure, caplog, monkeypatch):
    set_clocks(monkeypatch, 1e6)
    said = (
        "the data is the bottleneck: steps waited for data 100% of their time, and 99% of its time the input"
    )
    one, two = reported(configure, caplog, 99.0, 1.0)
    assert one.startswith(f"epoch 1: {said}") and two.startswith(f"epoch 2: {said}")


@pytest.mark.parametrize(("fill", "verdict"), [(49, "the model"), (0, "the data")])
def test_a_queue_that_is_never_empty_is_not_waited_for(configure, caplog, monkeypatch, fill, verdict):
    set_clocks(monkeypatch, 1e6)
    one, two = reported(configure, caplog, 10.0, 90.0, fill, steps=60)
    assert one.startswith(f"epoch 1: {verdict} is the bott") and two.startswith(f"epoch 2: {verdict} is the")


def test_a_model_that_never_waits_is_told_so(configure, caplog, monkeypatch):
    set_clocks(monkeypatch, -1.0)  # the input was there before the first clock was read
    said = (
        "the model is the bottleneck: steps waited for data 0% of their time, and 10% of its time the input"
    )
    one, two = reported(configure, caplog, 10.0, 90.0)
    assert one.startswith(f"epoch 1: {said}") and two.startswith(f"epoch 2: {said}")


def test_a_training_is_measured_by_real_clocks(kit, configure, caplog):
    caplog.set_level(logging.INFO, logger="towerpack_trainers")
    SimpleTrainer(configure(data=QueueInput(kit.line_data()), steps_per_epoch=20, max_epoch=2)).train()
    shares = r"epoch (\d): .*: steps waited for data \d+% of their time, and \d+% of its time the input"
    assert re.findall(shares, caplog.text) == ["1", "2"]


@pytest.mark.parametrize(
    ("steps_per_epoch", "steps_per_run", "between"),
    [(1, 1, 20), (60, 1, 20), (300, 1, 100), (10**6, 1, 200), (300, 100, 100), (10**6, 150, 300)],
)
def test_few_steps_are_sampled(steps_per_epoch, steps_per_run, between):
    assert sampling_period(steps_per_epoch, steps_per_run) == between


def test_constant_input_is_not_reported(kit, configure, caplog):
    caplog.set_level(logging.INFO, logger="towerpack_trainers")
    SimpleTrainer(configure(data=DummyConstantInput([(4,), (4,)]), steps_per_epoch=5)).train()
    assert "bottleneck" not in caplog.text
