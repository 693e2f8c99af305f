from collections import namedtuple
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from towerpack_dataflow import ArgumentError, BatchByBudget, BatchError
from towerpack_dataflow.interop.collate import RaggedArray, pad, ragged

Pair = namedtuple("Pair", "ids label")


@given(
    lengths=st.lists(st.integers(0, 9), min_size=1, max_size=6),
    multiple=st.integers(1, 5),
    fill=st.integers(-5, 5),
    dtype=st.sampled_from(["int8", "float32", "int64"]),
)
def test_padded_and_ragged_batches_hold_the_same_values(lengths, multiple, fill, dtype):
    datapoints = [{"x": np.arange(length).astype(dtype) + 10, "n": length} for length in lengths]
    batch = pad(datapoints, multiple_of=multiple, values=fill, mask="mask")
    joined = ragged(datapoints)["x"]
    width = batch["x"].shape[1]
    assert max(lengths) <= width < max(lengths) + multiple
    assert width % multiple == 0
    assert batch["x"].dtype == joined.values.dtype == dtype
    assert (batch["x"][~batch["mask"]] == fill).all()
    assert np.array_equal(batch["x"][batch["mask"]], joined.values)
    assert np.diff(joined.offsets).tolist() == batch["n"].tolist() == lengths
    assert batch["n"].dtype == np.int64


def test_nesting_lists_and_several_axes():
    datapoints = [
        Pair({"text": [[1, 2, 3], "a"]}, np.ones((1, 2))),
        Pair({"text": [[], "b"]}, np.ones((2, 1))),
    ]
    batch = pad(datapoints, values={"0.text.0": 7, "1": -1})
    assert type(batch) is Pair
    assert batch.ids["text"][0].tolist() == [[1, 2, 3], [7, 7, 7]]
    assert batch.ids["text"][1].tolist() == ["a", "b"]
    assert batch.label.tolist() == [[[1, 1], [-1, -1]], [[1, -1], [1, -1]]]
    assert pad([[[1]], [[2, 3]]], length=3)[0].tolist() == [[1, 0, 0], [2, 3, 0]]
    assert isinstance(ragged(datapoints[:1]).label, RaggedArray)


def test_batches_within_a_budget():
    texts = [{"ids": np.arange(1, 2 + number % 7)} for number in range(50)]
    flow = BatchByBudget(texts, [len(text["ids"]) for text in texts], 24, collate=partial(pad, mask="mask"))
    batches = list(flow)
    assert all(batch["ids"].size <= 24 for batch in batches)
    assert sum(batch["mask"].sum() for batch in batches) == sum(len(text["ids"]) for text in texts)


@pytest.mark.parametrize(
    ("collate", "datapoints", "problem"),
    [
        (pad, [{"a": [1]}, {"b": [1]}], "datapoint 1 of the batch has other components than datapoint 0"),
        (
            pad,
            [[[1]], [[1.5]]],
            "datapoint 1 of the batch has an array of float64 with 1 axes in component '0'",
        ),
        (
            partial(pad, length=2),
            [[[1]], [[1, 2, 3]]],
            "datapoint 1 of the batch has 3 values.*more than length=2",
        ),
        (
            partial(pad, values=300),
            [[np.zeros(1, "int8")]],
            "padding value 300 of component '0' is not one of int8",
        ),
        (ragged, [[np.ones((1, 2))], [np.ones((1, 3))]], "component '0' differ in the axes after the first"),
    ],
)
def test_datapoints_that_do_not_fit(collate, datapoints, problem):
    with pytest.raises(BatchError, match=problem):
        collate(datapoints)


def test_arguments():
    with pytest.raises(ArgumentError, match="multiple_of is an integer from 1 up; received 0"):
        pad([[[1]]], multiple_of=0)
    with pytest.raises(ArgumentError, match="length is an integer from 1 up, or None; received 0"):
        pad([[[1]]], length=0)
    for datapoints in ([[[1]]], [{"mask": [1]}], [{"a": 1}]):
        with pytest.raises(ArgumentError, match="mask='mask' is a new key of datapoints that are dicts"):
            pad(datapoints, mask="mask")
