"""Passes left early at random: memory, descriptors and processes are as at the beginning.

SOAK is the number of datapoints: 30 000 by default, a million in `nox -s "endurance(soak)"`.
"""

import gc
import os
import random
import sys
from collections import deque
from itertools import islice
from pathlib import Path

import cloudpickle
import numpy as np
import pytest
from resources import open_files

from towerpack_dataflow import DataFromList, MapData, MultiProcessMapData, MultiProcessRunner
from towerpack_dataflow.runtime.bench._data_speed import process_tree, proportional_memory

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers need not import pytest

COUNT = int(os.environ.get("SOAK", "30000"))
IDS = np.arange(64_000, dtype=np.int32).reshape(1000, 64)


def numbers(count):
    return DataFromList(range(count), shuffle=False)


def record(number):
    return {"ids": IDS[number % 1000], "label": number}


def image(number):
    return [np.full(300_000, number % 251, np.uint8), number]


# With so little prefetched, the workers soon reach their largest memory.
OPTIONS = {"start_method": "fork", "prefetch_bytes": 2**24}


def nested(flow, workers=1):
    return MultiProcessRunner(MultiProcessRunner(flow, workers, **OPTIONS), 1, **OPTIONS)


def held():
    """Bytes, descriptors and processes of this process and all below it; objects of this one."""
    gc.collect()
    processes = process_tree()
    descriptors = sum(len(list(Path(f"/proc/{process}/fd").iterdir())) for process in processes)
    return proportional_memory(processes), descriptors, len(processes), sys.getallocatedblocks()


class Soak:
    """Reads small and large datapoints through nested workers, and leaves passes wherever chance has it."""

    def __init__(self):
        self.draw = random.Random(7)
        self.records = nested(MapData(numbers(20_000), record))
        self.images = MultiProcessMapData(nested(MapData(numbers(200), image), 2), 1, list, **OPTIONS)
        self.kept = deque(maxlen=5)
        self.left = deque(maxlen=3)

    def read(self, count):
        while count > 0:
            count -= self.some_records() + self.some_images()

    def some_records(self):
        iterator = iter(self.records)
        seen = 0
        for seen, datapoint in enumerate(islice(iterator, self.draw.randrange(1, 30_000)), 1):
            if not seen % 1000:
                assert datapoint["label"] == seen - 1
                assert datapoint["ids"][5] == IDS[(seen - 1) % 1000, 5]
        self.left.append(iterator)  # some are ended by the next one, some by the garbage collector
        return seen

    def some_images(self):
        count = self.draw.randrange(40)
        for pixels, number in islice(self.images, count):
            self.kept.append((pixels[self.draw.randrange(9) :], number))
        assert all((pixels == number % 251).all() for pixels, number in self.kept)
        return count

    def close(self):
        for flow in (self.records, self.images):
            flow._worker_pool.close()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_nothing_grows():
    before = open_files()
    soak = Soak()
    soak.read(min(COUNT, 200_000))  # all slots are made, all workers started
    memory, descriptors, processes, objects = held()
    soak.read(COUNT)
    after = held()
    assert after[0] < memory + 2**26
    assert after[1] <= descriptors + 12
    assert after[2] == processes
    assert after[3] < objects + 20_000  # 64 MB are a lot, a third of an object for each datapoint is not
    soak.close()
    del soak
    assert not open_files() - before
