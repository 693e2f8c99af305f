import pytest

from towerpack_dataflow import ArgumentError, DataFromList, FilterData, MapData, RepeatedDataPoint
from towerpack_dataflow.testing import check_dataflow


def source(size=8):
    return MapData(DataFromList([[i] for i in range(size)]), lambda dp, rng: [*dp, rng.random()], rng=True)


FLOWS = {
    "addressable": lambda: RepeatedDataPoint(source(), 3),
    "once": lambda: RepeatedDataPoint(source(), 1),
    "stream": lambda: RepeatedDataPoint(FilterData(source(), lambda dp: dp[0] % 3), 4),
}


@pytest.mark.parametrize("name", FLOWS)
def test_conformance(name):
    check_dataflow(FLOWS[name]())


def test_the_flow_below_makes_each_datapoint_once():
    made = []
    flow = RepeatedDataPoint(MapData([[1], [2]], lambda dp: made.append(dp[0]) or dp), 3)
    assert list(flow) == [[1], [1], [1], [2], [2], [2]]
    assert made == [1, 2]
    assert len(flow) == 6
    assert flow.addressable


def test_repetitions_are_separate_lists():
    first, second = RepeatedDataPoint([["a"]], 2)
    first.append("b")
    assert second == ["a"]


@pytest.mark.parametrize("num", [0, -1, 1.5, "2"])
def test_bad_num(num):
    with pytest.raises(ArgumentError, match="num is an integer from 1 up; received "):
        RepeatedDataPoint(source(), num)
