import numpy as np
import pytest

from towerpack_dataflow import (
    BatchData,
    DataFromArrays,
    DataFromList,
    FilterData,
    JoinData,
    JoinError,
    MapData,
    MultiThreadRunner,
    NotAddressableError,
    RNGDataFlow,
    UnknownLengthError,
    ZipData,
)
from towerpack_dataflow.testing import check_dataflow


class Uneven(RNGDataFlow):
    """A stream with epochs of different length and content."""

    def __iter__(self):
        for number in range(self.rng.integers(4, 20)):
            yield [number, self.rng.integers(100)]


def source(size=12):
    return MapData(DataFromList([[i] for i in range(size)]), lambda dp, rng: [*dp, rng.random()], rng=True)


def same_twice(kind, flow, above=lambda flow: flow):
    return kind([flow, above(flow)])


FLOWS = {
    "joined": lambda: JoinData([source(), source(9)]),
    "zipped": lambda: ZipData([source(), source(9)]),
    "dicts": lambda: JoinData([[{"a": 1}, {"a": 2}], [{"b": 3}, {"b": 4}]]),
    "streams": lambda: JoinData([source(), FilterData(source(), lambda dp: dp[0] % 3), Uneven()]),
    "zipped streams": lambda: ZipData([FilterData(source(), lambda dp: dp[0] % 3), Uneven()]),
    "one flow twice": lambda: same_twice(JoinData, source()),
    "one stream twice": lambda: same_twice(JoinData, Uneven()),
    "one stream twice, zipped": lambda: same_twice(ZipData, Uneven()),
    "one stream twice, once below a map": lambda: same_twice(
        JoinData, Uneven(), lambda flow: MapData(flow, list)
    ),
    "batches": lambda: BatchData(JoinData([source(), source()]), 5, remainder=True),
}


@pytest.mark.parametrize("name", FLOWS)
def test_conformance(name):
    check_dataflow(FLOWS[name]())


def test_components_side_by_side():
    flow = JoinData([[["a"], ["b"], ["c"]], [(1, 2), (3, 4)]])
    assert list(flow) == [["a", 1, 2], ["b", 3, 4]]
    assert len(flow) == 2
    assert flow.addressable
    assert list(ZipData([[["a"]], [{"x": 1}]])) == [[["a"], {"x": 1}]]


def test_the_places_of_one_flow_have_different_orders():
    numbers = DataFromList([[i] for i in range(30)])
    pairs = list(JoinData([numbers, numbers]))
    assert sorted(one for one, _ in pairs) == sorted(two for _, two in pairs) == [*range(30)]
    assert any(one != two for one, two in pairs)


def test_joined_batches_have_one_size_where_all_have_it():
    arrays = DataFromArrays([np.arange(12)])
    assert JoinData([BatchData(arrays, 4), BatchData(arrays, 4)]).fixed_batch_size == 4
    assert JoinData([BatchData(arrays, 4), BatchData(arrays, 3)]).fixed_batch_size is None


def test_in_workers_the_same_datapoints():
    expected = JoinData([source(50), source(50)])
    expected.seed(2)
    with MultiThreadRunner(JoinData([source(50), source(50)]), 2) as runner:
        runner.seed(2)
        assert list(runner) == list(expected)


@pytest.mark.parametrize(
    ("flows", "message"),
    [
        (
            [[[1]], [{"a": 1}]],
            "cannot join datapoints of the types list, dict: all have to be lists or tuples",
        ),
        ([[{"a": 1}], [[1]]], "cannot join datapoints of the types dict, list"),
        ([[[1]], [7]], "cannot join datapoints of the types list, int"),
        ([[{"a": 1, "b": 1}], [{"a": 2}]], r"the keys \[\"'a'\"\] are in the datapoints of two flows"),
    ],
)
def test_datapoints_that_do_not_go_together(flows, message):
    with pytest.raises(JoinError, match=message) as caught:
        list(JoinData(flows))
    assert isinstance(caught.value, ValueError)
    assert "in the flow JoinData" in caught.value.__notes__[0]
    with pytest.raises(JoinError, match=message):
        JoinData(flows).datapoint(0, 0)


def test_the_length_is_unknown_if_that_of_one_flow_is():
    flow = JoinData([source(), FilterData(source(), bool)])
    with pytest.raises(
        UnknownLengthError, match=r"ends with its shortest flow, and the length of FilterData"
    ):
        len(flow)


def test_an_undeclared_drop():
    flow = JoinData([source(), MapData(source(), lambda dp: dp if dp[0] != 3 else None)])
    with pytest.raises(NotAddressableError, match="was dropped without a declaration"):
        [flow.datapoint(0, index) for index in range(12)]
    assert len(list(flow)) == 11
