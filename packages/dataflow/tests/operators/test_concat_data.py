import pytest

from towerpack_dataflow import (
    ArgumentError,
    ArgumentTypeError,
    ConcatData,
    DataFromList,
    FilterData,
    MapData,
    RNGDataFlow,
    UnknownLengthError,
)
from towerpack_dataflow.testing import check_dataflow


class Uneven(RNGDataFlow):
    """A stream with epochs of different length and content."""

    def __iter__(self):
        for number in range(self.rng.integers(1, 12)):
            yield [number, self.rng.integers(100)]


def source(size=10):
    return DataFromList([[i] for i in range(size)])


def filtered(size=10):
    return FilterData(source(size), lambda dp: dp[0] % 3)


def twice(flow):
    return ConcatData([flow, source(3), flow])


FLOWS = {
    "addressable": lambda: ConcatData([source(), source(1), source(7)]),
    "empty ones": lambda: ConcatData([[], source(4), [], source(2), []]),
    "streams": lambda: ConcatData([source(4), filtered(), Uneven(), source(5)]),
    "one flow twice": lambda: twice(source()),
    "one stream twice": lambda: twice(Uneven()),
    "nested": lambda: ConcatData([ConcatData([filtered(), source(2)]), ConcatData([source(3)])]),
}


@pytest.mark.parametrize("name", FLOWS)
def test_conformance(name):
    check_dataflow(FLOWS[name]())


def test_one_after_another():
    flow = ConcatData([[[1], [2]], ([3],), range(4, 6)])
    assert list(flow) == [[1], [2], [3], 4, 5]
    assert len(flow) == 5
    assert flow.addressable
    assert flow.datapoint(0, 3) == 4


def test_the_places_of_one_flow_have_different_orders():
    flow = source(30)
    both = list(ConcatData([flow, flow]))
    assert sorted(both[:30]) == sorted(both[30:])
    assert both[:30] != both[30:]


def test_resuming_makes_nothing_of_the_flows_before():
    made = []
    counted = MapData(range(1000), lambda number: made.append(number) or number)
    flow = ConcatData([counted, FilterData(range(100), lambda number: number % 2)])
    flow.load_state_dict({"seed": 0, "epoch": 0, "index": 1002})
    assert next(iter(flow)) == 5
    assert made == []


def test_resuming_in_a_stream_reads_only_that():
    read = []
    streams = [
        FilterData(range(100), lambda number: read.append(number) or number % 2, rng=False) for _ in range(3)
    ]
    flow = ConcatData(streams)
    iterator = iter(flow)
    for _ in range(110):
        next(iterator)
    state = flow.state_dict()
    fresh = ConcatData(streams)
    fresh.load_state_dict(state)
    read.clear()
    assert next(iter(fresh)) == 21
    assert len(read) <= 2


def test_a_drop_that_nothing_had_announced_keeps_states_exact():
    def make():
        return ConcatData([source(3), MapData(source(20), lambda dp: dp if dp[0] % 4 else None), source(4)])

    flow = make()
    flow.seed(1)
    iterator = iter(flow)
    taken = [next(iterator) for _ in range(12)]
    state = flow.state_dict()
    fresh = make()
    fresh.load_state_dict(state)
    assert list(fresh) == list(iterator)
    assert len(taken) == 12


def test_the_length_of_a_stream_is_unknown():
    with pytest.raises(UnknownLengthError):
        len(ConcatData([source(), filtered()]))
    assert not ConcatData([source(), filtered()]).addressable


@pytest.mark.parametrize("wrong", [source(), "ab", 3])
def test_only_lists_of_flows(wrong):
    with pytest.raises(ArgumentTypeError, match="ConcatData takes a list of flows; received "):
        ConcatData(wrong)
    with pytest.raises(ArgumentError, match="ConcatData takes at least one flow; received an empty list"):
        ConcatData([])
