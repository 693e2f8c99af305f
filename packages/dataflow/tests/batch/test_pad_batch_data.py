import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from towerpack_dataflow import (
    ArgumentError,
    ArgumentTypeError,
    BatchError,
    DataFromList,
    FilterData,
    MapData,
    PadBatchData,
)
from towerpack_dataflow.testing import check_dataflow


def ragged(size=18):
    return MapData(DataFromList([[i] for i in range(size)]), lambda dp: [np.full(dp[0] % 4, dp[0]), dp[0]])


def as_dict(datapoint):
    number = datapoint[1]
    return {"image": np.ones((number % 3 + 1, number % 2 + 1, 3), "uint8"), "words": [number] * (number % 4)}


FLOWS = {
    "longest": lambda: PadBatchData(ragged(), 4),
    "remainder": lambda: PadBatchData(ragged(), 4, remainder=True, values=-1),
    "dicts": lambda: PadBatchData(MapData(ragged(), as_dict), 4, shapes={"image": (3, None, 3)}),
    "stream": lambda: PadBatchData(FilterData(ragged(), lambda dp: dp[1] % 3), 4, shapes={0: [4]}),
}


@pytest.mark.parametrize("name", FLOWS)
def test_conformance(name):
    check_dataflow(FLOWS[name]())


@given(st.lists(st.lists(st.integers(-9, 9), max_size=6), min_size=1, max_size=8))
def test_rows_begin_with_the_values_and_end_with_the_filling(rows):
    (batch,) = next(iter(PadBatchData([[np.array(row, "int32")] for row in rows], len(rows), values=99)))
    longest = max(map(len, rows))
    assert batch.dtype == "int32"
    assert batch.tolist() == [row + [99] * (longest - len(row)) for row in rows]


def test_each_axis_and_each_component_by_itself():
    datapoints = [
        {"image": np.ones((2, 5), "float32"), "label": 1, "words": [1, 2]},
        {"image": np.ones((3, 4), "float32"), "label": 2, "words": []},
    ]
    flow = PadBatchData(datapoints, 2, shapes={"words": [3]}, values={"image": np.nan, "words": -1})
    (batch,) = flow
    assert batch["image"].shape == (2, 3, 5)
    assert np.isnan(batch["image"]).sum() == 2 * 15 - 10 - 12
    assert batch["words"].tolist() == [[1, 2, -1], [-1, -1, -1]]
    assert batch["words"].dtype == "int64"
    assert batch["label"].tolist() == [1, 2]
    assert flow.fixed_batch_size == 2
    assert len(flow) == 1


def test_an_array_that_is_filled_again_and_again():
    memory = np.zeros(3)

    def filled(number):
        memory[:] = number
        return [memory[: number + 1]]

    (batch,) = next(iter(PadBatchData(MapData(range(3), filled), 3)))
    assert batch.tolist() == [[0, 0, 0], [1, 1, 0], [2, 2, 2]]


@pytest.mark.parametrize(
    ("datapoints", "options", "message"),
    [
        (
            [[np.zeros(5)]],
            {"shapes": {0: [4]}},
            r"has shape \(5,\) in component 0, which is larger than the \(4,\)",
        ),
        ([[np.zeros(5)]], {"shapes": {0: [4, 4]}}, "set one length for each axis"),
        (
            [[np.zeros(2)], [np.zeros(2, int)]],
            {},
            "array of int64 with 1 axes in component 0, and the batch began",
        ),
        ([[np.zeros(2)], [np.zeros((2, 2))]], {}, "array of float64 with 2 axes in component 0"),
        (
            [[np.zeros(1, "uint8")], [np.zeros(2, "uint8")]],
            {"values": 300},
            "uint8 .* does not hold values=300",
        ),
        ([[np.zeros(1, int)], [np.zeros(2, int)]], {"values": 0.5}, "int64 .* does not hold values=0.5"),
        ([[np.zeros(1)], [3]], {}, "datapoint 1 of the pass has int 3 in component 0"),
    ],
)
def test_datapoints_that_do_not_fit(datapoints, options, message):
    with pytest.raises(BatchError, match=message):
        list(PadBatchData(datapoints, len(datapoints), **options))


def test_bad_arguments():
    with pytest.raises(ArgumentError, match="batch_size=4 is more than the 2 datapoints of a pass"):
        PadBatchData([[1], [2]], 4)
    with pytest.raises(ArgumentTypeError, match="shapes is a dict of shapes by component; received"):
        PadBatchData([[1]], 1, shapes=[4])
    with pytest.raises(ArgumentError, match="the shape of component 0 is a list of lengths"):
        PadBatchData([[1]], 1, shapes={0: 4})
    with pytest.raises(ArgumentError, match="a length of 0 is an integer from 1 up"):
        PadBatchData([[1]], 1, shapes={0: [-1]})
