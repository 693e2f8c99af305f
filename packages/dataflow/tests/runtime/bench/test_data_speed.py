import numpy as np
import pytest

from towerpack_dataflow import (
    ArgumentError,
    DataFromList,
    EmptyFlowError,
    MapData,
    SpeedResult,
    TestDataSpeed,
)
from towerpack_dataflow.testing import check_dataflow


@pytest.mark.long
@pytest.mark.slow
def test_conformance(capsys):
    check_dataflow(TestDataSpeed(DataFromList([[i] for i in range(9)]), size=3))


def test_start_counts_datapoints_and_bytes(capsys):
    flow = TestDataSpeed(
        [[np.zeros(10, np.uint8), 1, "abc", {"a": b"x", "b": (2.0,)}]] * 20, size=5, warmup=2
    )
    result = flow.start()
    assert result.datapoints == 5
    assert result.bytes == 5 * (10 + 8 + 3 + 1 + 8)
    assert result.datapoints_per_second == 5 / result.seconds
    assert result.bytes_per_second == result.bytes / result.seconds
    assert capsys.readouterr().out == f"TestDataSpeed: {result}\n"


def test_as_a_flow_it_measures_once_and_passes_everything_through(capsys):
    plain = DataFromList(range(30))
    plain.seed(2)
    flow = TestDataSpeed(DataFromList(range(30)), size=7)
    flow.seed(2)
    assert [list(flow), list(flow)] == [list(plain), list(plain)]
    assert capsys.readouterr().out.count("7 datapoints in") == 1


def test_start_leaves_the_position_alone(capsys):
    flow = TestDataSpeed(MapData(range(30), lambda dp: dp or None), size=100)
    flow.seed(0)
    before = flow.state_dict()
    assert flow.start().datapoints == 29
    assert flow.state_dict() == before
    assert list(flow) == list(range(1, 30))


def test_text():
    assert str(SpeedResult(10, 0.5, 2_000_000)) == "10 datapoints in 0.50 s: 20 datapoints/s, 4.0 MB/s"


def test_errors(capsys):
    with pytest.raises(ArgumentError, match="size is an integer from 1 up; received 0"):
        TestDataSpeed([[1]], size=0)
    with pytest.raises(ArgumentError, match="warmup is an integer from 0 up; received -1"):
        TestDataSpeed([[1]], warmup=-1)
    with pytest.raises(
        EmptyFlowError,
        match="nothing to time: DataFromList yielded 1 datapoints, all of them to warm up: warmup=3",
    ):
        TestDataSpeed([[1]], warmup=3).start()
    with pytest.raises(ZeroDivisionError) as caught:
        TestDataSpeed(MapData([0], lambda dp: 1 / dp)).start()
    assert "in the flow TestDataSpeed > MapData(" in caught.value.__notes__[0]
