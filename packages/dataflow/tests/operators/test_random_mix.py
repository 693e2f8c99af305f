from collections import Counter
from itertools import islice

import numpy as np
import pytest

from towerpack_dataflow import (
    ArgumentError,
    DataFromList,
    FilterData,
    MapData,
    RandomMixData,
    RNGDataFlow,
    UnknownLengthError,
)
from towerpack_dataflow.testing import check_dataflow


class Twelve(RNGDataFlow):
    """A stream of known length."""

    def __len__(self):
        return 12

    def __iter__(self):
        for number in range(12):
            yield [number, self.rng.integers(100)]


def source(size=12):
    return MapData(DataFromList([[i] for i in range(size)]), lambda dp, rng: [*dp, rng.random()], rng=True)


def twice(flow):
    return RandomMixData([flow, source(), flow])


FLOWS = {
    "addressable": lambda: RandomMixData([source(), source(3), source(30)]),
    "empty ones": lambda: RandomMixData([[], source(), []]),
    "nothing": lambda: RandomMixData([[], []]),
    "streams": lambda: RandomMixData([Twelve(), source(5)]),
    "one flow twice": lambda: twice(source()),
    "one stream twice": lambda: twice(Twelve()),
}


@pytest.mark.parametrize("name", FLOWS)
def test_conformance(name):
    check_dataflow(FLOWS[name]())


@pytest.mark.long
@pytest.mark.slow
def test_conformance_over_several_blocks():
    check_dataflow(RandomMixData([source(2000), source(50), source(1500)]), limit=3550, positions=4)


def mixed(sizes):
    flow = RandomMixData([[(place, number) for number in range(size)] for place, size in enumerate(sizes)])
    flow.seed(5)
    return flow


def test_each_datapoint_comes_once_and_each_flow_keeps_its_order():
    datapoints = list(mixed([5000, 10, 700]))
    for place, size in enumerate([5000, 10, 700]):
        assert [number for of, number in datapoints if of == place] == list(range(size))


def test_flows_are_mixed_evenly():
    places = np.array([place for place, _ in mixed([30_000, 10_000])])
    for quarter in np.split(places, 4):
        assert abs(quarter.mean() - 0.25) < 0.02


def test_all_orders_are_equally_likely():
    flow = RandomMixData([["a", "a"], ["b", "b"]])
    flow.seed(0)
    orders = Counter("".join(flow) for _ in range(1800))
    assert len(orders) == 6
    assert all(abs(count - 300) < 80 for count in orders.values())


def test_resuming_far_inside_makes_nothing_before_it():
    flow = RandomMixData([range(10**8), range(3 * 10**8)])
    flow.load_state_dict({"seed": 1, "epoch": 2, "index": 2 * 10**8})
    after = list(islice(flow, 3))
    assert after == [flow.datapoint(2, 2 * 10**8 + step) for step in range(3)]


def test_a_drop_that_nothing_had_announced_leaves_the_others():
    flow = RandomMixData([source(), MapData(source(), lambda dp: dp if dp[0] % 2 else None)])
    assert len(list(flow)) == 18


def test_lengths_must_be_known():
    with pytest.raises(UnknownLengthError):
        RandomMixData([source(), FilterData(source(), bool)])
    with pytest.raises(
        ArgumentError, match="mixes up to 1000000000 datapoints; received flows with 2000000000"
    ):
        RandomMixData([range(10**9), range(10**9)])
