"""The warning about a stalled training describes its waits."""

import logging
import re
import threading
import time

import numpy as np
import pytest

from towerpack_callbacks import Callback, DataParallelInferenceRunner, InferenceRunner, ScalarStats
from towerpack_inputsource import Buffer, InputStatus, QueueInput, ThreadActivity
from towerpack_trainers import ConfigError, SimpleTrainer
from towerpack_trainers.reports import describe_stall


def until(condition):
    """Waits for another thread."""
    limit = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < limit
        threading.Event().wait(0.01)


def stalls(caplog, step):
    """The warnings logged after the given number of steps; the first step may be slow itself."""
    messages = [record.getMessage() for record in caplog.records]
    return [m for m in messages if "No step has finished" in m and f"global step {step})" in m]


class StuckFlow:
    """Yields three datapoints, and the others after a signal."""

    def __init__(self):
        self.go_on = threading.Event()

    def __iter__(self):
        for number in range(1000):
            if number == 3:
                self.go_on.wait(60)
            yield [np.ones(4, np.float32)] * 2


def test_a_stuck_flow_is_named_and_so_is_its_end(configure, caplog):
    flow = StuckFlow()

    def release():
        until(lambda: stalls(caplog, 3))
        flow.go_on.set()

    helper = threading.Thread(target=release)
    helper.start()
    with caplog.at_level(logging.WARNING, logger="towerpack_trainers"):
        SimpleTrainer(
            configure(data=QueueInput(flow), steps_per_epoch=9, max_epoch=1, stall_seconds=0.2)
        ).train()
        helper.join()
    message = stalls(caplog, 3)[0]
    assert re.match(r"No step has finished for \d+ s \(epoch 1, local step 3, global step 3\)", message)
    assert "The step waits for data, and towerpack-queue waits for the flow's next datapoint" in message
    assert re.search(r"queue holds 0 of \d+", message)
    assert "thread 'towerpack-queue':" in message and "self.go_on.wait(60)" in message
    assert "thread 'MainThread':" in message and "in run_step" in message


def test_a_stuck_callback_is_in_the_stacks(configure, caplog):
    class Stuck(Callback):
        def _trigger_step(self):
            if self.global_step == 2:
                until(lambda: stalls(caplog, 2))

    with caplog.at_level(logging.WARNING, logger="towerpack_trainers"):
        SimpleTrainer(configure(callbacks=[Stuck()], stall_seconds=0.2)).train()
    message = stalls(caplog, 2)[0]
    assert "Data is available, so the step itself, or a callback, is busy or stuck" in message
    assert "in _trigger_step" in message


def test_callbacks_after_an_epoch_have_no_limit(configure, caplog):
    class Long(Callback):
        def _trigger_epoch(self):
            before = stalls(caplog, self.global_step)  # a step may itself be slow
            threading.Event().wait(0.3)
            self.during = len(stalls(caplog, self.global_step)) - len(before)

    long = Long()
    with caplog.at_level(logging.WARNING, logger="towerpack_trainers"):
        SimpleTrainer(configure(callbacks=[long], stall_seconds=0.1)).train()
    assert long.during == 0


def test_it_can_be_switched_off(configure):
    class Threads(Callback):
        def _before_epoch(self):
            self.names = {thread.name for thread in threading.enumerate()}

    for seconds, there in [(float("inf"), False), (5, True)]:
        threads = Threads()
        SimpleTrainer(configure(callbacks=[threads], stall_seconds=seconds)).train()
        assert ("towerpack-stall-watch" in threads.names) is there


@pytest.mark.parametrize("seconds", [0, -1, "1", True])
def test_the_time_is_checked(configure, seconds):
    with pytest.raises(ConfigError, match=r"stall_seconds=.*expected a number above 0"):
        configure(stall_seconds=seconds)


def status(fill, doing):
    return InputStatus(
        "QueueInput", (Buffer("queue", fill, 50),), (ThreadActivity("loader", doing, 1.0, 1.0, 1.0),)
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (status(0, "flow"), "The step waits for data, and loader waits for the flow's next datapoint"),
        (status(0, "ended"), "The step waits for data, and no datapoint is being produced"),
        (status(3, "put"), "Data is available"),
        (status(None, "put"), "It is not known whether the step waits for data"),
        (InputStatus("TFDatasetInput"), "It is not known whether the step waits for data"),
        (None, "There is no input"),
    ],
)
def test_descriptions_of_waits(given, said):
    assert describe_stall(given).startswith(said)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("devices", [None, ["/cpu:0", "/cpu:1"]])
def test_an_endless_evaluation_is_reported(configure, caplog, devices):
    found = []

    class Endless:
        def __iter__(self):
            while not found:
                found.extend(
                    record.getMessage()
                    for record in caplog.records
                    if "The evaluation in" in record.getMessage()
                )
                yield [np.ones(4, np.float32)] * 2

    stats = ScalarStats("cost")
    runner = (
        InferenceRunner(Endless(), stats)
        if devices is None
        else DataParallelInferenceRunner(Endless(), stats, devices)
    )
    with caplog.at_level(logging.WARNING, logger="towerpack_trainers"):
        SimpleTrainer(configure(callbacks=[runner], max_epoch=1, stall_seconds=0.2)).train()
    assert re.match(r"The evaluation in 'InferenceTower0?' has run for \d+ s: \d+ batches", found[0])
    assert "if it never ends, use FixedSizeData(flow, size)" in found[0]
