"""Any tree of flows, stopped anywhere and resumed in a copy, yields the same rest."""

import copy
import json
from itertools import islice

import cloudpickle
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from towerpack_dataflow import (
    BatchData,
    BatchDataByShape,
    CacheData,
    ConcatData,
    DataFlow,
    DataFromArrays,
    DataFromGenerator,
    DataFromIterable,
    DataFromList,
    FixedSizeData,
    JoinData,
    LocallyShuffleData,
    MapData,
    MapDataComponent,
    MemoryCache,
    PadBatchData,
    PrintData,
    ProxyDataFlow,
    RandomChooseData,
    RandomMixData,
    RepeatedData,
    RepeatedDataPoint,
    RNGDataFlow,
    ShardData,
    WindowData,
    ZipData,
)
from towerpack_dataflow.testing import check_dataflow, same

MOST = 90


class Uneven(RNGDataFlow):
    """A stream with epochs of different length and content."""

    def __init__(self, size):
        self.size = size

    def __iter__(self):
        for number in range(self.rng.integers(1, self.size + 1)):
            yield [number, self.rng.integers(100)]


class EveryOther(ProxyDataFlow):
    """A user's stream over another flow."""

    def __len__(self):
        return (len(self.ds) + 1) // 2

    def __iter__(self):
        for number, datapoint in enumerate(self.ds):
            if number % 2 == 0:
                yield datapoint


class Both(DataFlow):
    """Two subtrees, one after another."""

    def __init__(self, one, two):
        self.parts = (one, two)

    def __iter__(self):
        for part in self.parts:
            yield from islice(part, MOST)


class ByName(DataFlow):
    """Two subtrees in a dict, datapoint by datapoint."""

    def __init__(self, one, two):
        self.flows = {"one": one, "rest": [{"two": two}]}

    def __iter__(self):
        for one, two in zip(self.flows["one"], self.flows["rest"][0]["two"]):
            yield [one, two]


class OnTheSpot(ProxyDataFlow):
    """Builds an operator with random numbers in each pass."""

    def __len__(self):
        return len(self.ds)

    def __iter__(self):
        yield from MapData(self.ds, add_noise, rng=True)


class WholePasses(ProxyDataFlow):
    """Makes each datapoint of a pass over the flow below."""

    addressable = True

    def __len__(self):
        return 4

    def datapoint(self, epoch, index):
        return [index, [*islice(self.ds, index + 2)]]


def shard_of(ds, places):
    index, count = places
    return ShardData(ds, index % count, count)


def rows_of(ds):
    """A flow with stackable datapoints, for any datapoints of `ds`."""
    return MapData(ds, measured)


def measured(dp):
    return [np.float32(len(str(dp))), len(str(dp)) % 7]


def boxed(dp):
    return [dp]


def add_noise(dp, rng):
    return [*dp, rng.random()]


def keep_some(dp, rng):
    return dp if rng.random() < 0.7 else None


sizes = st.integers(1, 9)
leaves = st.one_of(
    st.builds(lambda n, s: DataFromList([[i, i] for i in range(n)], shuffle=s), sizes, st.booleans()),
    st.builds(lambda n: DataFromGenerator(lambda: ([i] for i in range(n))), sizes),
    st.builds(Uneven, sizes),
    st.builds(lambda n: DataFromIterable([[i] for i in range(n)]), sizes),
    st.builds(lambda n, s: DataFromArrays([np.arange(n), [*range(n)]], shuffle=s), sizes, st.booleans()),
    st.builds(lambda n, size: BatchData(DataFromArrays([np.arange(n)]), size, remainder=True), sizes, sizes),
)


def grown(trees):
    return st.one_of(
        st.builds(lambda ds: MapData(ds, list), trees),
        st.builds(lambda ds: MapData(ds, add_noise, rng=True), trees),
        st.builds(lambda ds: MapData(ds, keep_some, rng=True, drops=True), trees),
        st.builds(lambda ds: MapData(ds, keep_some, rng=True), trees),
        st.builds(lambda ds: MapDataComponent(ds, str), trees),
        st.builds(
            lambda ds, n: BatchData(MapData(ds, boxed), n, remainder=True, use_list=True), trees, sizes
        ),
        st.builds(lambda ds, n: FixedSizeData(full(ds), n, keep_state=True), trees, sizes),
        st.builds(lambda ds, n: FixedSizeData(full(ds), n, keep_state=False), trees, sizes),
        st.builds(RepeatedData, trees, st.integers(1, 3)),
        st.builds(lambda ds: RepeatedData(full(ds), -1), trees),
        st.builds(EveryOther, trees),
        st.builds(Both, trees, trees),
        st.builds(ByName, trees, trees),
        st.builds(OnTheSpot, trees),
        st.builds(WholePasses, trees),
        st.builds(shard_of, trees, st.tuples(st.integers(0, 5), st.integers(1, 3))),
        st.builds(lambda ds, n: BatchData(rows_of(ds), n, remainder=True), trees, sizes),
        st.builds(lambda ds: quiet(PrintData(ds)), trees),
        grown_by_order(trees),
        grown_by_several(trees),
    )


def grown_by_order(trees):
    """Operators that repeat, shuffle, collect or keep datapoints."""
    return st.one_of(
        st.builds(RepeatedDataPoint, trees, st.integers(1, 3)),
        st.builds(LocallyShuffleData, trees, sizes, st.integers(1, 2)),
        st.builds(lambda ds, n, step: WindowData(rows_of(ds), n, step), trees, sizes, st.integers(1, 3)),
        st.builds(lambda ds, n: PadBatchData(MapData(ds, ragged), n, remainder=True), trees, sizes),
        st.builds(
            lambda ds, n, rest: BatchDataByShape(MapData(ds, ragged), n, 0, rest), trees, sizes, st.booleans()
        ),
        st.builds(
            lambda ds, s, few: CacheData(firm(ds), s and not few, room(few)), trees, *[st.booleans()] * 2
        ),
    )


def grown_by_several(trees):
    """Operators over several flows, or over one that stands at two places."""
    kinds = st.sampled_from([ConcatData, ZipData, RandomChooseData])
    return st.one_of(
        st.builds(lambda kind, one, two: kind([one, two]), kinds, trees, trees),
        st.builds(lambda kind, ds: kind([ds, MapData(ds, list), ds]), kinds, trees),
        st.builds(lambda one, two: JoinData([rows_of(one), rows_of(two)]), trees, trees),
        st.builds(lambda one, n: RandomMixData([sized(one), [[i] for i in range(n)]]), trees, sizes),
    )


def ragged(dp):
    return [np.zeros(len(str(dp)) % 3, np.float32), len(str(dp))]


def firm(ds):
    """Of known length, and without a map that drops by surprise: its datapoints are kept by number."""
    return DataFromList([[0], [1]]) if surprises(ds) or known_length(ds) is None else ds


def sized(ds):
    """Of known length."""
    return FixedSizeData(full(ds), 5) if known_length(ds) is None or surprises(ds) else ds


def surprises(tree):
    return any(isinstance(flow, MapData) and flow._rng and not flow._drops for flow in walk(tree))


def room(few):
    return MemoryCache(max_bytes=20 if few else None)


def full(ds):
    """Never empty, so that it can be repeated forever."""
    return Both(ds, DataFromList([["last"]]))


def quiet(printer):
    printer._done = True
    return printer


trees = st.recursive(leaves, grown, max_leaves=3)


def head(flow, size=MOST):
    return list(islice(iter(flow), size))


@pytest.mark.slow
@settings(max_examples=120, deadline=None)
@given(tree=trees, seed=st.integers(0, 2**64), data=st.data())
def test_stop_and_resume_anywhere(tree, seed, data):
    pickled = cloudpickle.dumps(tree)

    def fresh():
        flow = cloudpickle.loads(pickled)
        flow.seed(seed)
        return flow

    flow = fresh()
    passes = [head(flow) for _ in range(4)]
    early = data.draw(st.integers(0, 5), label="left early at")
    epoch = data.draw(st.integers(0, 2), label="epoch")
    stop = data.draw(st.integers(0, len(passes[epoch])), label="stopped at")
    flow = fresh()
    for number in range(epoch):
        assert same(head(flow, early), passes[number][:early])
    iterator = iter(flow)
    got = list(islice(iterator, stop))
    state = json.loads(json.dumps(flow.state_dict()))
    copied = cloudpickle.loads(cloudpickle.dumps(flow))
    resumed = cloudpickle.loads(pickled)
    resumed.load_state_dict(state)
    for other in (resumed, copied):
        assert same(got + head(other, MOST - stop), passes[epoch])
        assert same(head(other), passes[epoch + 1])
    assert same(got + list(islice(iterator, MOST - stop)), passes[epoch])


@pytest.mark.slow
@settings(max_examples=60)
@given(tree=trees, dry=st.lists(st.integers(0, 30), max_size=3))
def test_a_dry_run_leaves_nothing_behind(tree, dry):
    pickled = cloudpickle.dumps(tree)
    fresh, flow = cloudpickle.loads(pickled), cloudpickle.loads(pickled)
    fresh.seed(3)
    flow.seed(3)
    begin = copy.deepcopy(flow.state_dict())
    for count in dry:
        head(flow, count)
    flow.load_state_dict(begin)
    assert flow.state_dict() == fresh.state_dict() == begin
    assert known_length(flow) == known_length(fresh)
    for _ in range(2):
        assert same(head(flow), head(fresh))
        assert flow.state_dict() == fresh.state_dict()


def known_length(flow):
    try:
        return len(flow)
    except TypeError:
        return None


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(tree=trees)
def test_any_tree_conforms(tree):
    # A map that drops by surprise has, until then, a length that is too large: not for this check.
    if not surprises(tree):
        check_dataflow(tree, limit=40, positions=4)


def walk(flow):
    yield flow
    for child in flow.children():
        yield from walk(child)
