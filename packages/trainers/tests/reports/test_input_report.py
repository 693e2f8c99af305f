"""Which of data and model is the slower one."""

import logging
import re
import threading

import numpy as np
import pytest

from towerpack_callbacks import Callback
from towerpack_inputsource import DummyConstantInput, InputStatus, QueueInput, ThreadActivity
from towerpack_trainers import SimpleTrainer
from towerpack_trainers.reports._input_report import _steps_between_samples, describe_epoch


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


def test_the_share_that_steps_waited_is_told():
    assert describe_epoch(spent(10.0, 90.0), 0.034) == (
        "the model is the bottleneck: steps waited for data 3% of their time, and 10% of its time the input "
        "was at work on the next datapoint"
    )


def test_nothing_is_said_of_an_input_without_threads():
    assert describe_epoch(InputStatus("DummyConstantInput")) is None


def test_a_flow_that_waits_for_the_model_never_is_the_bottleneck(kit, configure, caplog):
    caplog.set_level(logging.INFO, logger="towerpack_trainers")

    class Waiting:
        """Gives a datapoint only when its consumer has long been waiting."""

        def __iter__(self):
            while True:
                threading.Event().wait(0.03)
                yield [np.ones(4, np.float32)] * 2

    SimpleTrainer(configure(data=QueueInput(Waiting()), steps_per_epoch=20, max_epoch=2)).train()
    [line] = [message for message in caplog.messages if "epoch 2: the data is the bottleneck" in message]
    waited = int(re.search(r"steps waited for data (\d+)% of their time", line)[1])
    assert waited > 50


def test_a_model_that_never_waits_is_told_so(kit, configure, caplog):
    caplog.set_level(logging.INFO, logger="towerpack_trainers")

    class Slow(Callback):
        def _trigger_step(self):
            threading.Event().wait(0.01)

    SimpleTrainer(configure(callbacks=[Slow()], steps_per_epoch=20, max_epoch=2)).train()
    [line] = [message for message in caplog.messages if "epoch 2: the model is the bottleneck" in message]
    assert int(re.search(r"steps waited for data (\d+)% of their time", line)[1]) < 20


@pytest.mark.parametrize(
    ("steps_per_epoch", "steps_per_run", "between"),
    [(1, 1, 20), (60, 1, 20), (300, 1, 100), (10**6, 1, 200), (300, 100, 100), (10**6, 150, 300)],
)
def test_few_steps_are_sampled(steps_per_epoch, steps_per_run, between):
    assert _steps_between_samples(steps_per_epoch, steps_per_run) == between


def test_constant_input_is_not_reported(kit, configure, caplog):
    caplog.set_level(logging.INFO, logger="towerpack_trainers")
    SimpleTrainer(configure(data=DummyConstantInput([(4,), (4,)]), steps_per_epoch=5)).train()
    assert "bottleneck" not in caplog.text
