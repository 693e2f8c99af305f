"""Keeping parts of a few datapoints does not keep the memory of all others."""

import sys

import cloudpickle
import numpy as np
import pytest

from towerpack_dataflow import (
    DataFromList,
    MapData,
    MultiProcessMapData,
    MultiProcessRunner,
    MultiThreadRunner,
)

cloudpickle.register_pickle_by_value(sys.modules[__name__])
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def of_size(size, kind):
    if kind == "dict":
        return lambda dp: {"image": np.full(size, dp[0] % 251, np.uint8), "label": dp[0]}
    return lambda dp: [np.full(size, dp[0] % 251, np.uint8), np.full((2, size // 8), dp[0], np.float32)]


def memory_of(arrays):
    """Returns the bytes of all memory that some arrays keep: those of the objects below their views."""
    owners = {}
    for array in arrays:
        owner = array
        while getattr(owner, "base", None) is not None:
            owner = owner.base
        owner = getattr(owner, "obj", owner)
        owners[id(owner)] = owner
    return sum(
        owner.slot.size if hasattr(owner, "slot") else memoryview(owner).nbytes for owner in owners.values()
    )


RUNNERS = {
    "runner": lambda flow, func: MultiProcessRunner(MapData(flow, func), 2, start_method="fork"),
    "map": lambda flow, func: MultiProcessMapData(flow, 2, func, start_method="fork"),
    "thread": lambda flow, func: MultiThreadRunner(MapData(flow, func), 2),
    "read-only": lambda flow, func: lent(MultiProcessRunner(MapData(flow, func), 2, start_method="fork")),
}


def lent(flow):
    flow.lend_read_only()
    return flow


@pytest.mark.parametrize("kind", ["dict", "list"])
@pytest.mark.parametrize(("size", "count", "each"), [(1000, 20_000, 200), (5000, 5_000, 50)])
@pytest.mark.parametrize("runner", RUNNERS)
def test_a_few_kept_datapoints_keep_little_memory(runner, size, count, each, kind):
    func = of_size(size, kind)
    flow = RUNNERS[runner](DataFromList([[number] for number in range(count)], shuffle=False), func)
    kept = []
    with flow:
        for number, datapoint in enumerate(flow):
            if number % each == 0:
                kept.append(datapoint)
    parts = [list(dp.values()) if kind == "dict" else dp for dp in kept]
    for number, datapoint in enumerate(parts):
        assert np.array_equal(datapoint[0], np.full(size, number * each % 251, np.uint8))
    arrays = [part for datapoint in parts for part in datapoint if isinstance(part, np.ndarray)]
    # Of 40 to 50 MB: the first few messages are views, and a message is larger where workers are slow.
    assert memory_of(arrays) < 12 * 2**20
