import gc
import weakref
from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from towerpack_dataflow import (
    ArgumentError,
    DataFromGenerator,
    DataFromList,
    FilterData,
    LocallyShuffleData,
    MapData,
    MultiThreadRunner,
    RNGDataFlow,
)
from towerpack_dataflow.testing import check_dataflow


class Uneven(RNGDataFlow):
    """A stream with epochs of different length and content."""

    def __iter__(self):
        for number in range(self.rng.integers(4, 30)):
            yield [number, self.rng.integers(100)]


def source(size=30):
    return MapData(DataFromList([[i] for i in range(size)]), lambda dp, rng: [*dp, rng.random()], rng=True)


FLOWS = {
    **{f"buffer of {size}": lambda size=size: LocallyShuffleData(source(), size) for size in (1, 2, 3, 7)},
    "larger than the data": lambda: LocallyShuffleData(source(), 100),
    "reused": lambda: LocallyShuffleData(source(), 8, num_reuse=3),
    "stream": lambda: LocallyShuffleData(FilterData(source(60), lambda dp: dp[0] % 4), 11),
    "reused stream": lambda: LocallyShuffleData(Uneven(), 5, num_reuse=2),
    "empty": lambda: LocallyShuffleData([], 5),
}


@pytest.mark.parametrize("name", FLOWS)
def test_conformance(name):
    check_dataflow(FLOWS[name]())


@given(size=st.integers(0, 60), buffer_size=st.integers(1, 40), num_reuse=st.integers(1, 4))
def test_a_pass_is_a_permutation_that_moves_nothing_far(size, buffer_size, num_reuse):
    flow = LocallyShuffleData(range(size), buffer_size, num_reuse)
    flow.seed(3)
    numbers = list(flow)
    assert len(flow) == len(numbers)
    assert sorted(numbers) == sorted([*range(size)] * num_reuse)
    for place, number in enumerate(numbers):
        assert number * num_reuse - place < buffer_size
        assert place - (number * num_reuse + num_reuse - 1) < buffer_size


def test_each_epoch_has_a_different_order_and_datapoints_mix_across_blocks():
    flow = LocallyShuffleData(range(1000), 60)
    first, second = list(flow), list(flow)
    assert first != second
    moved = np.abs(np.array(first) - np.arange(1000))
    assert 10 < moved.mean() < 30
    for boundary in range(40, 1000, 40):  # blocks of 40
        assert any(number >= boundary for number in first[:boundary])


def test_it_reads_no_further_than_the_buffer():
    read = []
    flow = LocallyShuffleData(MapData(range(10**6), lambda number: read.append(number) or number), 100)
    iterator = iter(flow)
    for place in range(300):
        next(iterator)
        assert len(read) - place <= 100


def test_resuming_reads_no_more_than_the_buffer_again():
    flow = LocallyShuffleData(range(10**6), 100)
    flow.load_state_dict({"seed": 5, "epoch": 0, "index": 900_000})
    read = []
    counted = MapData(range(10**6), lambda number: read.append(number) or number)
    fresh = LocallyShuffleData(counted, 100)
    fresh.load_state_dict({"seed": 5, "epoch": 0, "index": 900_000})
    assert list(islice(fresh, 50)) == list(islice(flow, 50))
    assert len(read) < 250


def test_no_more_datapoints_live_than_the_buffer_holds():
    class Item:
        pass

    alive = weakref.WeakSet()

    def items():
        for _ in range(500):
            item = Item()
            alive.add(item)
            yield [item]
            del item

    most = 0
    # Of other objects than arrays, a snapshot is a copy.
    for _ in LocallyShuffleData(DataFromGenerator(items), 50):
        most = max(most, len(alive))
    gc.collect()
    assert most <= 52


def test_in_workers_the_same_order():
    flow = LocallyShuffleData(source(200), 20)
    flow.seed(4)
    expected = list(flow)
    with MultiThreadRunner(LocallyShuffleData(source(200), 20), 2) as runner:
        runner.seed(4)
        assert list(runner) == expected


@pytest.mark.parametrize("wrong", [0, -3, 2.5, None])
def test_bad_arguments(wrong):
    with pytest.raises(ArgumentError, match="buffer_size is an integer from 1 up; received "):
        LocallyShuffleData(source(), wrong)
    with pytest.raises(ArgumentError, match="num_reuse is an integer from 1 up; received "):
        LocallyShuffleData(source(), 5, wrong)
