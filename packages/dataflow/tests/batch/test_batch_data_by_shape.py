import numpy as np
import pytest

from towerpack_dataflow import (
    ArgumentError,
    ArgumentTypeError,
    BatchDataByShape,
    BatchError,
    ComponentError,
    DataFromList,
    FilterData,
    MapData,
    UnknownLengthError,
)
from towerpack_dataflow.testing import check_dataflow


def shapes(size=40):
    return MapData(DataFromList([[i] for i in range(size)]), lambda dp: [np.full(dp[0] % 4, dp[0]), dp[0]])


def as_dict(datapoint):
    return {"array": datapoint[0], "number": datapoint[1]}


FLOWS = {
    "full": lambda: BatchDataByShape(shapes(), 3, 0),
    "remainder": lambda: BatchDataByShape(shapes(), 3, 0, remainder=True),
    "dicts": lambda: BatchDataByShape(MapData(shapes(), as_dict), 4, "array"),
    "stream": lambda: BatchDataByShape(FilterData(shapes(), lambda dp: dp[1] % 3), 2, 0),
}


@pytest.mark.parametrize("name", FLOWS)
def test_conformance(name):
    check_dataflow(FLOWS[name]())


def test_batches_of_one_shape_within_one_pass():
    rows = [[np.full(length, place)] for place, length in enumerate([2, 3, 2, 3, 3, 2])]
    flow = BatchDataByShape(rows, 2, 0)
    for _ in range(2):  # nothing is left over for the next pass
        assert [batch.tolist() for (batch,) in flow] == [[[0, 0], [2, 2]], [[1, 1, 1], [3, 3, 3]]]
    *_, fewer, last = BatchDataByShape(rows, 2, 0, remainder=True)
    assert [fewer[0].tolist(), last[0].tolist()] == [[[4, 4, 4]], [[5, 5]]]
    assert flow.fixed_batch_size == 2


def test_the_length_is_unknown():
    with pytest.raises(UnknownLengthError, match=r"the number of batches of .* depends on the shapes"):
        len(BatchDataByShape(shapes(), 3, 0))


@pytest.mark.parametrize("datapoint", [[7], {"a": 1}, [], 3])
def test_datapoints_without_an_array_there(datapoint):
    with pytest.raises(
        ComponentError, match=r"needs an array as component 0 .* datapoint 1 of the pass has none"
    ):
        list(BatchDataByShape([[np.zeros(2)], datapoint], 2, 0))


def test_the_message_about_other_components_names_the_datapoint():
    flow = BatchDataByShape([[np.zeros(2), 1], [np.zeros(3), 1], [np.zeros(2), "a"]], 2, 0)
    with pytest.raises(BatchError, match="datapoint 2 of the pass has str 'a' in component 1"):
        list(flow)


def test_bad_arguments():
    with pytest.raises(ArgumentError, match="batch_size is an integer from 1 up"):
        BatchDataByShape(shapes(), 0, 0)
    with pytest.raises(ArgumentTypeError, match="idx is a position or a key of a dict"):
        BatchDataByShape(shapes(), 2, [0])
