from collections import defaultdict, deque
from types import SimpleNamespace

import numpy as np
import pytest

from towerpack_dataflow import (
    ArgumentError,
    ArgumentTypeError,
    CacheData,
    CacheError,
    DataFlow,
    DataFromList,
    FilterData,
    FixedSizeData,
    MapData,
    MemoryCache,
    MultiThreadRunner,
    NotAddressableError,
    RepeatedData,
    RNGDataFlow,
)
from towerpack_dataflow.testing import check_dataflow


class Uneven(RNGDataFlow):
    """A stream with epochs of different length and content."""

    def __iter__(self):
        for number in range(self.rng.integers(4, 20)):
            yield [number, self.rng.integers(100)]


def source(size=20):
    return MapData(DataFromList([[i] for i in range(size)]), lambda dp, rng: [*dp, rng.random()], rng=True)


def filtered(size=20):
    return FilterData(source(size), lambda dp: dp[0] % 3)


FLOWS = {
    "addressable": lambda: CacheData(source()),
    "shuffled": lambda: CacheData(source(), shuffle=True),
    "stream": lambda: CacheData(filtered()),
    "shuffled stream": lambda: CacheData(filtered(), shuffle=True),
    "part": lambda: CacheData(source(), True, MemoryCache(max_bytes=50)),
    "part of a stream": lambda: CacheData(Uneven(), storage=MemoryCache(max_bytes=50)),
    "endless": lambda: RepeatedData(CacheData(filtered(), shuffle=True), -1),
    "empty": lambda: CacheData([]),
}


@pytest.mark.parametrize("name", FLOWS)
def test_conformance(name):
    check_dataflow(FLOWS[name](), limit=60)


def counted(flow, made):
    return MapData(flow, lambda dp: made.append(dp) or dp)


@pytest.mark.parametrize("below", [source, filtered])
@pytest.mark.parametrize("shuffle", [False, True])
def test_each_datapoint_is_made_once(below, shuffle):
    made = []
    flow = CacheData(counted(below(), made), shuffle)
    first, second, third = list(flow), list(flow), list(flow)
    assert len(made) == len(first)
    assert sorted(first) == sorted(second) == sorted(third)
    assert (first == second) == (not shuffle)
    if shuffle:
        assert second != third


def test_the_datapoints_are_those_of_seed_0_for_any_seed_of_the_run():
    one, two, plain = CacheData(source()), CacheData(source()), source()
    one.seed(1)
    two.seed(2)
    plain.seed(0)
    assert list(one) == list(two) == list(plain)


def test_another_seed_for_the_flow_below_is_another_cache():
    flow = CacheData(source())
    first = list(flow)
    flow.ds.seed(7)
    other = list(flow)
    assert other != first
    assert flow.datapoint(5, 3) == other[3]


@pytest.mark.parametrize("below", [source, filtered])
def test_a_pass_that_was_left_early_is_completed(below):
    made = []
    flow = CacheData(counted(below(), made))
    iterator = iter(flow)
    begun = [next(iterator) for _ in range(5)]
    whole = list(flow)
    assert whole[:5] == begun
    assert len(whole) == len(list(below()))
    assert len(made) == len(whole)


@pytest.mark.parametrize("drops", [False, True])
def test_a_pass_that_an_error_broke_off_is_completed(drops):
    broken = [True]

    def fragile(number):
        if number == 4 and broken[0]:
            raise OSError("no connection")
        return [number]

    flow = CacheData(MapData(range(9), fragile, drops=drops))
    for _ in range(2):
        with pytest.raises(OSError, match="no connection"):
            list(flow)
    broken[0] = False
    assert list(flow) == list(flow) == [[number] for number in range(9)]


def test_flows_above_do_not_change_cached_datapoints():
    def spoil(datapoint):
        array, (more,), texts = datapoint
        array[:] = more[:] = 9
        texts["a"] = "spoilt"
        return [array, more]

    kept = [[np.zeros(2), (np.ones(1),), {"a": "b"}]]
    flow = CacheData(MapData(range(1), lambda _: [np.zeros(2), (np.ones(1),), {"a": "b"}]))
    list(MapData(flow, spoil))
    for _ in range(2):
        ((array, (more,), texts),) = flow
        assert np.array_equal(array, kept[0][0])
        assert np.array_equal(more, kept[0][1][0])
        assert texts == {"a": "b"}
        array[:] = 5


def test_beyond_the_limit_datapoints_are_made_again():
    made = []
    arrays = MapData(range(10), lambda number: made.append(number) or [np.full(100, number, "uint8")])
    flow = CacheData(arrays, storage=MemoryCache(max_bytes=450))
    first, second = list(flow), list(flow)
    assert np.array_equal(first, second)
    assert made == [*range(10), *range(4, 10)]


def test_a_stream_cannot_be_shuffled_beyond_the_limit():
    flow = CacheData(filtered(), True, MemoryCache(max_bytes=64))
    list(flow)
    with pytest.raises(
        CacheError, match=r"is not in MemoryCache\(max_bytes=64\), and a stream cannot make it"
    ):
        list(flow)


def test_copies_start_empty_and_give_the_same():
    flow = CacheData(source(40), shuffle=True)
    flow.seed(3)
    expected = [list(flow), list(flow)]
    with MultiThreadRunner(CacheData(source(40), shuffle=True), 2) as runner:
        runner.seed(3)
        assert [list(runner), list(runner)] == expected


def test_a_drop_that_nothing_had_announced_is_an_error():
    flow = CacheData(MapData(range(9), lambda number: number if number != 4 else None))
    with pytest.raises(NotAddressableError, match="dropped a datapoint without a declaration"):
        list(flow)


def test_a_live_flow_has_no_pass_to_cache():
    class Queue(DataFlow):
        live = True

        def __iter__(self):
            yield [1]

    with pytest.raises(ArgumentError, match=r"Queue is live: .* there is no pass to cache"):
        CacheData(Queue())


@pytest.mark.parametrize("above", [lambda flow: flow, lambda flow: MapData(flow, list)])
def test_an_endless_flow_has_no_pass_to_cache(above):
    endless = above(RepeatedData(source(), -1))
    with pytest.raises(ArgumentError, match=r"has no end, .* put CacheData below the repetition"):
        CacheData(endless)
    assert len(list(CacheData(FixedSizeData(endless, 7)))) == 7


def test_bad_arguments():
    with pytest.raises(ArgumentTypeError, match="shuffle is True or False"):
        CacheData([1], shuffle="no")
    with pytest.raises(ArgumentTypeError, match="storage is a MemoryCache or a DiskCache; received 'memory'"):
        CacheData([1], storage="memory")
    with pytest.raises(ArgumentError, match="max_bytes is an integer from 1 up"):
        MemoryCache(0)


@pytest.mark.parametrize(
    ("value", "change"),
    [
        (bytearray(b"abc"), lambda value: value.append(1)),
        ({1, 2}, lambda value: value.add(3)),
        (deque([1]), lambda value: value.append(2)),
        (defaultdict(list, a=[1]), lambda value: value["a"].append(2)),
        (np.array([[1], None], object), lambda value: value[0].append(2)),
        (SimpleNamespace(a=[1]), lambda value: value.a.append(2)),
        (np.ma.array([1, 2], mask=[True, False]), lambda value: value.__setitem__(0, 7)),
    ],
)
def test_changes_in_one_pass_do_not_affect_later_passes(value, change):
    flow = CacheData([[value]], storage=MemoryCache())
    before = repr(value)
    for _ in range(3):
        (((kept,),)) = list(flow)
        assert repr(kept) == before
        change(kept)
