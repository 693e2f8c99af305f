"""The bottleneck: data or model."""

import re

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callback, Monitor
from towerpack_inputsource import Buffer, DummyConstantInput, InputStatus, QueueInput, ThreadActivity
from towerpack_trainers import SimpleTrainer
from towerpack_trainers.reports import Bottleneck, BottleneckReport, judge_epoch, sampling_period


def spent(flow, put):
    return InputStatus("QueueInput", (), (ThreadActivity("t", "flow", 0.0, flow, put),))


def bottleneck(*arguments, **measured):
    """The bottleneck of an epoch."""
    return judge_epoch(spent(*arguments), **measured).bottleneck


@pytest.mark.parametrize(
    ("flow", "put", "side"),
    [(99.0, 1.0, Bottleneck.DATA), (10.0, 90.0, Bottleneck.MODEL), (75.0, 25.0, Bottleneck.NEITHER)],
)
def test_verdicts(flow, put, side):
    assert judge_epoch(spent(flow, put)) == BottleneckReport(side, flow / 100)


@pytest.mark.parametrize("share", [0.7, 0.3])
def test_waiting_steps_show_a_data_bottleneck(share):
    assert bottleneck(share, 1 - share, waited=0.96) is Bottleneck.DATA


def test_a_filled_queue_excludes_a_data_bottleneck():
    """On a loaded machine: 49.7 of 50 datapoints were available, and three steps waited for the processor."""
    assert bottleneck(0.3, 99.7, waited=0.84, filled=0.99) is Bottleneck.MODEL
    assert bottleneck(99.0, 1.0, waited=0.0, filled=0.6) is Bottleneck.NEITHER
    assert bottleneck(99.0, 1.0, waited=0.9, filled=0.02) is Bottleneck.DATA


def test_few_samples_decide_nothing():
    assert bottleneck(30.0, 70.0, waited=0.84, samples=2) is Bottleneck.MODEL
    assert bottleneck(30.0, 70.0, waited=0.84, samples=3) is Bottleneck.DATA


def test_a_verdict_is_one_line():
    assert str(BottleneckReport(Bottleneck.MODEL, 0.1, 0.034)) == (
        "the model is the bottleneck: steps waited for data 3% of their time, and 10% of its time the input "
        "was at work on the next datapoint"
    )
    assert str(BottleneckReport(Bottleneck.NEITHER, 0.75)) == (
        "data and model are about even: 75% of its time the input was at work on the next datapoint"
    )


def test_no_verdict_for_an_input_without_threads():
    assert judge_epoch(InputStatus("DummyConstantInput")) is None


def set_clocks(monkeypatch, seconds):
    """Replaces the clocks in a graph: the one after the input is ahead by `seconds` at every run."""
    times = {"step_begins": 100.0, "input_came": 100.0 + seconds}
    real = tf.timestamp

    def timestamp(name=None):
        return tf.constant(times[name], tf.float64) if name in times else real(name)

    monkeypatch.setattr(tf, "timestamp", timestamp)


class Listener(Monitor):
    """Records the messages."""

    def __init__(self):
        self.messages = []

    def process_message(self, text):
        self.messages.append(text)


def messages(configure, source, steps=20, epochs=2, **changes):
    """The console messages of a training."""
    listener = Listener()
    config = configure(data=source, steps_per_epoch=steps, max_epoch=epochs, monitors=[listener], **changes)
    SimpleTrainer(config).train()
    return [message for message in listener.messages if message.startswith("epoch ")]


class Growing(QueueInput):
    """An input with a thread that appears to spend these seconds between two status queries."""

    def __init__(self, flow, put, fill=None):
        super().__init__([[np.ones(4, np.float32)] * 2])
        self.each, self.all, self.fill = (flow, put), (0.0, 0.0), fill

    def status(self):
        self.all = tuple(old + new for old, new in zip(self.all, self.each))
        return spent(*self.all)._replace(buffers=(Buffer("queue", self.fill, 50),))


def test_a_flow_that_waits_for_the_model_never_is_the_bottleneck(configure, monkeypatch):
    set_clocks(monkeypatch, 1e6)
    [told] = messages(configure, Growing(99.0, 1.0))
    assert told.startswith(
        "epoch 1: the data is the bottleneck: steps waited for data 100% of their time, and 99% of its"
    )


@pytest.mark.parametrize(("fill", "verdict"), [(49, "the model"), (0, "the data")])
def test_a_queue_that_is_never_empty_is_not_waited_for(configure, monkeypatch, fill, verdict):
    set_clocks(monkeypatch, 1e6)
    [told] = messages(configure, Growing(10.0, 90.0, fill), steps=60)
    assert told.startswith(f"epoch 1: {verdict} is the bott")


def test_a_model_that_never_waits_is_reported(configure, monkeypatch):
    set_clocks(monkeypatch, -1.0)  # the input was available before the first clock was read
    [told] = messages(configure, Growing(10.0, 90.0))
    assert told.startswith(
        "epoch 1: the model is the bottleneck: steps waited for data 0% of their time, and 10% of its"
    )


def test_a_change_is_reported_after_two_epochs(configure, monkeypatch):
    set_clocks(monkeypatch, -1.0)
    source = Growing(99.0, 1.0)
    shares = dict.fromkeys((3, 5, 6), (1, 1e8)) | dict.fromkeys((4, 7), (1e10, 1))

    class Change(Callback):
        def _before_epoch(self):
            source.each = shares.get(self.epoch_num, source.each)

    told = messages(configure, source, epochs=7, callbacks=[Change()])
    assert [line.split(":")[:2] for line in told] == [
        ["epoch 1", " the data is the bottleneck"],
        ["epoch 6", " the model is the bottleneck"],
    ]


def test_a_training_is_measured_by_real_clocks(kit, configure):
    [told, *_] = messages(configure, QueueInput(kit.line_data()))
    shares = r"epoch 1: .*: steps waited for data \d+% of their time, and \d+% of its time the input"
    assert re.match(shares, told)


@pytest.mark.parametrize(
    ("steps_per_epoch", "steps_per_run", "between"),
    [(1, 1, 20), (60, 1, 20), (300, 1, 100), (10**6, 1, 2000), (300, 100, 100), (10**6, 1500, 3000)],
)
def test_few_steps_are_sampled(steps_per_epoch, steps_per_run, between):
    assert sampling_period(steps_per_epoch, steps_per_run) == between


def test_constant_input_is_not_reported(configure):
    assert messages(configure, DummyConstantInput([(4,), (4,)]), steps=5) == []
