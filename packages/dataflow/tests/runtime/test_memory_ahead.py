"""Workers are a few large datapoints ahead of the consumer, and each has about as many slots as any other."""

import threading
import time

import numpy as np
import pytest

from towerpack_dataflow import DataFromList, MapData, MultiProcessRunner
from towerpack_dataflow.testing import same

WORKERS = 3


def image(number):
    return [np.full(2**20, number, np.int32)]


def slots(runner):
    """The number of slots that each worker has."""
    return [len(worker.channel._borrowed._slots) for worker in runner._worker_pool._workers]


def test_slots_are_few_and_even_with_a_slow_consumer():
    runner = MultiProcessRunner(MapData(DataFromList(range(16), shuffle=False), image), WORKERS)
    with runner:
        for _ in range(2):  # the second pass is begun during the first one
            for number, (array,) in enumerate(runner):
                assert (array == number).all()
                del array
                threading.Event().wait(0.03)
                assert max(slots(runner)) <= 4  # one more on a busy machine


@pytest.mark.parametrize("workers", [1, 2])
def test_workers_continue_while_a_consumer_is_busy(workers, tmp_path):
    """A consumer that finds datapoints ready makes room, and workers use it at once."""

    def noted(number):
        (tmp_path / str(number)).touch()
        return image(number)

    def are_ahead(number):
        return len(list(tmp_path.iterdir())) - number - 1 >= 1  # more where they are made in a moment

    runner = MultiProcessRunner(MapData(DataFromList(range(40), shuffle=False), noted), workers)
    with runner:
        for number, datapoint in enumerate(runner):
            assert same(datapoint, image(number))
            del datapoint
            threading.Event().wait(0.06)
            deadline = time.monotonic() + 20  # the machine may be busy
            while 5 <= number < 30 and not are_ahead(number) and time.monotonic() < deadline:
                threading.Event().wait(0.01)
            assert not 5 <= number < 30 or are_ahead(number)
