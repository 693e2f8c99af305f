"""A consumer that promises not to write gets read-only views, based on a lease."""

import gc
import sys

import cloudpickle
import numpy as np
import pytest
from resources import open_files

from towerpack_dataflow import (
    BatchData,
    DataFromList,
    FixedSizeData,
    MapData,
    MultiProcessMapAndBatchData,
    MultiProcessMapData,
    MultiProcessRunner,
    MultiThreadRunner,
    PrintData,
    RepeatedData,
)

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers need not import pytest

SIZE = 2**20


def numbers(count):
    return DataFromList([[number] for number in range(count)], shuffle=False)


def image(dp):
    return [np.full(SIZE, dp[0], np.uint8), np.full(3, dp[0]), dp[0]]


def runner(count=12, **options):
    return MultiProcessRunner(MapData(numbers(count), image), 1, start_method="fork", **options)


def batched(count=12, **options):
    return MultiProcessRunner(BatchData(MapData(numbers(count), image), 1), 1, start_method="fork", **options)


def mapped(count=12, **options):
    return MultiProcessMapData(numbers(count), 2, image, start_method="fork", **options)


def owner_of(array):
    """The owner of the memory, and whether any base is writable."""
    writable = False
    owner = array
    while isinstance(owner, (np.ndarray, memoryview)):
        if isinstance(owner, np.ndarray):
            writable, owner = writable or owner.flags.writeable, owner.base
        else:
            writable, owner = writable or not owner.readonly, owner.obj
    return owner, writable


def where(array):
    return array.__array_interface__["data"][0]


def is_lent(array):
    owner, writable = owner_of(array)
    return not writable and getattr(owner, "towerpack_lease", False)


LENDING = {
    "runner": runner,
    "batches made in their slots": batched,
    "map": mapped,
    "map and batch": lambda: MultiProcessMapAndBatchData(numbers(12), 1, image, 1, start_method="fork"),
    "nested": lambda: MultiProcessRunner(runner(), 1, start_method="fork"),
    "repeated": lambda: RepeatedData(runner(), 2),
    "of fixed size": lambda: FixedSizeData(batched(), 5),
    "printed": lambda: PrintData(runner(), num=1),
    "in threads": lambda: MultiThreadRunner(runner(), 1),
    "without order": lambda: runner(ordered=False),
    "replicated": lambda: runner(replicate=True),
}


@pytest.mark.parametrize("build", LENDING.values(), ids=LENDING)
def test_large_arrays_come_as_read_only_views_on_a_lease(build):
    flow = build()
    flow.lend_read_only()
    large = [datapoint[0] for datapoint in flow]
    assert len(large) >= 5
    for array in large[:8]:
        assert is_lent(array)
        assert where(array) % 64 == 0
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
        with pytest.raises(ValueError, match="WRITEABLE"):
            array.flags.writeable = True


def test_a_promise_made_late_counts_from_the_next_datapoint_on():
    flow = runner()
    iterator = iter(flow)
    before = next(iterator)[0]
    flow.lend_read_only()
    after = next(iterator)[0]
    assert before.flags.writeable and is_lent(after)


def test_without_a_promise_the_consumer_may_write():
    for array, _, number in runner():
        array += 1
        assert array[0] == number + 1


def test_small_arrays_are_the_consumers_own():
    flow = runner()
    flow.lend_read_only()
    for _, small, _ in flow:
        assert small.flags.writeable and not is_lent(small)


@pytest.mark.parametrize(
    "above", [lambda ds: MapData(ds, list), lambda ds: BatchData(ds, 2)], ids=["map", "batch"]
)
def test_the_promise_ends_where_somebody_may_write(above):
    below = runner()
    above(below).lend_read_only()
    assert all(array.flags.writeable for array, _, _ in below)


@pytest.mark.parametrize("derive", [lambda a: a, lambda a: a[5:], lambda a: a.reshape(2, -1).T, np.asarray])
def test_a_held_array_keeps_its_address_and_its_bytes(derive):
    flow = mapped(60)
    flow.lend_read_only()
    held = []
    for array, _, number in flow:
        held.append((derive(array), number))
        if len(held) > 5:
            held.pop(0)
        places = [where(array) for array, _ in held]
        assert len(set(places)) == len(places)
        for array, number in held:
            assert is_lent(array)
            assert (array == number).all()


def test_a_queue_may_be_full_of_views_and_beyond_that_they_are_read_only_copies():
    flow = runner(80, prefetch_bytes=8 * SIZE)
    flow.lend_read_only()
    before = open_files()
    held = [array for array, _, _ in flow]
    lent = [is_lent(array) for array in held]
    assert sum(lent) == 4 * 8
    assert len(open_files() - before) < 8
    for number, array in enumerate(held):
        owner, writable = owner_of(array)
        assert not writable and (lent[number] or owner is None)
        assert where(array) % 64 == 0
        assert (array == number).all()
    del held, array, owner
    gc.collect()
    assert is_lent(next(iter(flow))[0])


def test_a_copy_of_the_flow_has_separate_promises():
    flow = runner()
    flow.lend_read_only()
    copied = cloudpickle.loads(cloudpickle.dumps(flow))
    assert next(iter(copied))[0].flags.writeable
