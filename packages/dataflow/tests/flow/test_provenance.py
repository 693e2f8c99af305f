"""Traces report the true origins of datapoints; states are available without reading."""

import json
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towerpack_dataflow import (
    ArgumentError,
    BatchData,
    DataFlow,
    DataFromArrays,
    DataFromGenerator,
    DataFromList,
    FixedSizeData,
    FlowDefinitionError,
    MapData,
    MultiProcessMapAndBatchData,
    MultiThreadRunner,
    NotAddressableError,
    Origin,
    PrintData,
    ProxyDataFlow,
    RepeatedData,
    ShardData,
    StateError,
    Trace,
    UnknownLengthError,
)

NUMBERS = [[number] for number in range(23)]


def keep(dp, rng):
    return dp


def shuffled():
    return DataFromList(NUMBERS)


TREES = {
    "list": shuffled,
    "plain": lambda: DataFromList(NUMBERS, shuffle=False),
    "arrays": lambda: DataFromArrays([range(23)]),
    "map": lambda: MapData(MapData(shuffled(), keep, rng=True), lambda dp: dp),
    "shard": lambda: ShardData(shuffled(), 1, 3),
    "repeated": lambda: RepeatedData(shuffled(), 2),
    "fixed": lambda: FixedSizeData(shuffled(), 17),
    "fixed anew": lambda: FixedSizeData(shuffled(), 17, keep_state=False),
    "endless": lambda: FixedSizeData(FixedSizeData(shuffled(), 5, keep_state=False), 12, keep_state=False),
    "batch": lambda: BatchData(shuffled(), 4),
    "remainder": lambda: BatchData(
        BatchData(shuffled(), 4, remainder=True), 4, remainder=True, use_list=True
    ),
    "deep": lambda: BatchData(FixedSizeData(ShardData(MapData(shuffled(), keep, rng=True), 2, 3), 20), 6),
    "threads": lambda: MultiThreadRunner(BatchData(shuffled(), 4), 0),
    "map and batch": lambda: MultiProcessMapAndBatchData(shuffled(), 0, list, 4),
}


def flat(value):
    if hasattr(value, "tolist"):
        value = value.tolist()
    return [number for member in value for number in flat(member)] if isinstance(value, list) else [value]


@pytest.mark.parametrize("name", TREES)
def test_the_sources_of_a_trace_match_the_datapoint(name):
    flow = TREES[name]()
    flow.seed(5)
    for epoch in range(3):
        for index in range(len(flow)):
            trace = flow.trace(index, epoch)
            assert [leaf.notes["member"] for leaf in trace.sources()] == flat(flow.datapoint(epoch, index))
            assert trace.complete


@pytest.mark.parametrize("name", TREES)
def test_a_trace_survives_json(name):
    trace = TREES[name]().trace(0)
    again = Trace.from_dict(json.loads(json.dumps(trace.to_dict())))
    assert again == trace and hash(again) == hash(trace) and repr(again) == repr(trace)


@pytest.mark.parametrize("broken", [None, {}, {"flow": "x"}, 3])
def test_what_is_no_trace_is_refused(broken):
    with pytest.raises(StateError, match=r"a trace is the dict that Trace\.to_dict\(\) returns; received"):
        Trace.from_dict(broken)


def test_the_text_shows_first_and_last_of_many():
    flow = BatchData(DataFromList(NUMBERS, shuffle=False), 7)
    flow.seed(1)
    assert repr(flow.trace(2, 1)).splitlines() == [
        "BatchData(7): datapoint 2 of epoch 1, seed 1",
        "  DataFromList: datapoint 14 of epoch 1, member 14",
        "  DataFromList: datapoint 15 of epoch 1, member 15",
        "  DataFromList: datapoint 16 of epoch 1, member 16",
        "  … and 3 more",
        "  DataFromList: datapoint 20 of epoch 1, member 20",
    ]


def test_streams_and_numbers_beyond_the_end_have_no_trace():
    with pytest.raises(NotAddressableError, match="is a stream: the origin of its datapoint 0"):
        DataFromGenerator(lambda: iter([[1]])).trace(0)
    with pytest.raises(NotAddressableError):
        MapData(shuffled(), keep, rng=True, drops=True).trace(0)
    with pytest.raises(IndexError, match="datapoint 23 of DataFromList: a pass has 23"):
        shuffled().trace(23)
    with pytest.raises(ArgumentError, match="epoch is an integer from 0 up"):
        shuffled().trace(0, -1)


class Backwards(ProxyDataFlow):
    def datapoint(self, epoch, index):
        return self.ds.datapoint(epoch, len(self) - 1 - index)


class TracedBackwards(Backwards):
    def datapoint(self, epoch, index):
        return super().datapoint(epoch, index)

    def origins(self, epoch, index):
        return [Origin(self.ds, len(self) - 1 - index, epoch)]


class Squares(DataFlow):
    def __len__(self):
        return 4

    def datapoint(self, epoch, index):
        return [index**2]


def test_a_datapoint_method_of_ones_own_is_not_guessed_at():
    trace = BatchData(Backwards(shuffled()), 2).trace(0)
    assert not trace.complete
    assert "not known: Backwards has a custom datapoint() and no origins()" in repr(trace)
    assert Squares().trace(3).complete
    own = TracedBackwards(shuffled())
    assert [own.trace(4).origins[0].notes["member"]] == own.datapoint(0, 4)


def test_an_origin_is_right_below():
    class Strange(ProxyDataFlow):
        def origins(self, epoch, index):
            return [Origin(shuffled(), 0)]

    with pytest.raises(
        FlowDefinitionError, match=r"origins\(\) of Strange names DataFromList.*not directly below"
    ):
        Strange(shuffled()).trace(0)


@given(n=st.integers(0, 70))
def test_state_at_is_the_state_after_so_many(n):
    flow, other = (BatchData(PrintData(shuffled(), num=1), 4) for _ in range(2))
    flow.seed(3)
    other.seed(3)
    state = flow.state_at(n)
    assert flow.state_dict()["index"] == 0
    other.load_state_dict(json.loads(json.dumps(state)))
    batch = next(iter(other))
    assert batch[0].tolist() == flow.datapoint(n // 5, n % 5)[0].tolist()


def test_state_at_holds_the_seeds_below():
    flow = MapData(ShardData(shuffled(), 0, 2), keep, rng=True)
    flow.seed(9)
    flow.ds.seed(4)
    list(islice(flow, 3))
    assert flow.state_at(3) == flow.state_dict()


def test_a_stream_of_known_length_has_states_and_others_have_none():
    stream = MapData(DataFromGenerator(lambda: iter(NUMBERS)), lambda dp: dp)
    with pytest.raises(UnknownLengthError):
        stream.state_at(3)
    assert FixedSizeData(stream, 10).state_at(23)["epoch"] == 2
    with pytest.raises(ArgumentError, match=r"state_at\(1\).*which has only empty passes"):
        DataFromList([]).state_at(1)
    assert DataFromList([]).state_at(0)["index"] == 0
    with pytest.raises(ArgumentError, match="n is an integer from 0 up"):
        shuffled().state_at(-1)


def test_a_live_flow_has_no_state_at():
    class Queue(DataFlow):
        live = True

        def __iter__(self):
            yield [1]

    with pytest.raises(NotAddressableError, match="is live"):
        FixedSizeData(Queue(), 3).state_at(2)
