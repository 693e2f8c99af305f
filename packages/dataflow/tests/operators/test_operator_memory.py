"""The memory of an operator does not depend on the number of datapoints.

`nox -s bench -- flows` sends a million through each.
"""

import gc
import tracemalloc
import weakref
from collections import deque

import numpy as np
import pytest

from towerpack_dataflow import (
    BatchData,
    BatchDataByShape,
    CacheData,
    ConcatData,
    DataFromGenerator,
    DataFromList,
    FilterData,
    FixedSizeData,
    JoinData,
    LocallyShuffleData,
    MapData,
    MapDataComponent,
    MemoryCache,
    MultiProcessRunner,
    MultiThreadRunner,
    PadBatchData,
    RandomChooseData,
    RandomMixData,
    RepeatedData,
    RepeatedDataPoint,
    SelectComponent,
    ShardData,
    WindowData,
    ZipData,
)

FEW, MANY = 300, 3000
MOST = 2**19  # bytes that a pass over many may need beyond one over few; the others would be 2.7 MB


def stream(count):
    return DataFromGenerator(lambda: ([np.empty(1000, np.uint8), number] for number in range(count)))


def addressable(count):
    return MapData(range(count), lambda number: [np.empty(1000, np.uint8), number])


def ragged(count):
    return MapData(stream(count), lambda dp: [dp[0][: dp[1] % 7 * 100], dp[1]])


FLOWS = {
    "SelectComponent": lambda n: SelectComponent(stream(n), [1, 0]),
    "FilterData": lambda n: FilterData(stream(n), lambda dp: dp[1] % 2),
    "RepeatedData": lambda n: RepeatedData(stream(n // 2), 2),
    "FixedSizeData": lambda n: FixedSizeData(stream(n // 2), n),
    "RepeatedDataPoint": lambda n: RepeatedDataPoint(stream(n // 2), 2),
    "ShardData": lambda n: ShardData(stream(n), 1, 2),
    "BatchData": lambda n: BatchData(stream(n), 16),
    "PadBatchData": lambda n: PadBatchData(ragged(n), 16),
    "BatchDataByShape": lambda n: BatchDataByShape(ragged(n), 16, 0),
    "WindowData": lambda n: WindowData(stream(n), 8, 4),
    "ConcatData": lambda n: ConcatData([stream(n // 2), stream(n // 2)]),
    "JoinData": lambda n: JoinData([stream(n), addressable(n)]),
    "ZipData": lambda n: ZipData([stream(n), addressable(n)]),
    "RandomChooseData": lambda n: RandomChooseData([addressable(n), addressable(n)]),
    "RandomMixData": lambda n: RandomMixData([addressable(n), addressable(n // 2)]),
    "LocallyShuffleData": lambda n: LocallyShuffleData(stream(n), 50),
    "CacheData": lambda n: CacheData(stream(n), storage=MemoryCache(max_bytes=20_000)),
}


def peak(flow):
    """The most memory that two passes need."""
    gc.collect()
    tracemalloc.start()
    for _ in range(2):
        deque(flow, maxlen=0)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most


@pytest.mark.slow
@pytest.mark.parametrize("name", FLOWS)
def test_memory_is_bounded(name):
    make = FLOWS[name]
    few = peak(make(FEW))
    assert peak(make(MANY)) < few + MOST


SOURCES = {
    "lists": lambda: DataFromList([[number, "a"] for number in range(200)]),
    "dicts": lambda: DataFromList([{0: number} for number in range(200)], shuffle=False),
    "both": lambda: DataFromList([[number] if number % 2 else {0: number} for number in range(200)]),
    "LocallyShuffleData": lambda: LocallyShuffleData(DataFromList([[n] for n in range(200)]), 100),
    "num_reuse": lambda: LocallyShuffleData(DataFromList([[n] for n in range(200)]), 100, num_reuse=2),
    "threads": lambda: MultiThreadRunner(MapData(range(200), lambda number: [number]), 1),
    "processes": lambda: MultiProcessRunner(MapData(range(200), lambda number: [number]), 1),
}


@pytest.mark.parametrize("name", SOURCES)
def test_a_source_does_not_keep_the_results_that_maps_write_into_its_datapoints(name):
    made = []

    def load(number):
        image = np.full(10, number)
        made.append(weakref.ref(image))
        return image

    for datapoint in MapDataComponent(SOURCES[name](), load, 0):
        del datapoint
        assert sum(image() is not None for image in made) <= 2
