"""Parts of long arrays as datapoints, and batches that copy them without making datapoints."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from towerpack_dataflow import (
    ArgumentError,
    ArgumentTypeError,
    BatchByBudget,
    BatchError,
    BucketData,
    DataFromList,
    DataFromRagged,
    MapData,
    PackData,
)
from towerpack_dataflow.interop.collate import pad, ragged
from towerpack_dataflow.testing import check_dataflow

LENGTHS = [int(number) for number in np.random.default_rng(0).integers(0, 12, 41)]
PLANNED = {
    "budget": lambda ds, lengths, **more: BatchByBudget(ds, lengths, 40, window=10, **more),
    "bucket": lambda ds, lengths, **more: BucketData(ds, lengths, [4, 9], [8, 4, 2], **more),
    "pack": lambda ds, lengths, **more: PackData(ds, lengths, 32, **more),
}


def offsets_of(lengths):
    return np.append(0, np.cumsum(lengths)).astype(np.uint32)


def flow_of(lengths, dtype=None, **more):
    count = sum(lengths)
    values = {"ids": np.arange(count, dtype=np.uint16), "box": np.ones((count, 2), np.float32)}
    return DataFromRagged(values, offsets_of(lengths), dtype=dtype, **more)


def same(one, other):
    assert type(one) is type(other) and list(one) == list(other)
    for key, value in one.items():
        for part, expected in zip(
            *(each if isinstance(each, tuple) else (each,) for each in (value, other[key]))
        ):
            assert part.dtype == expected.dtype
            np.testing.assert_array_equal(part, expected)


@pytest.mark.parametrize("shuffle", [True, False])
def test_conformance(shuffle):
    check_dataflow(flow_of(LENGTHS, shuffle=shuffle))
    check_dataflow(PLANNED["budget"](flow_of(LENGTHS, shuffle=False), LENGTHS, collate=pad))


@pytest.mark.parametrize("dtype", [None, "int64"])
def test_datapoints_are_copies_of_the_parts(dtype):
    values = np.arange(10, dtype=np.int64)
    flow = DataFromRagged((values,), [0, 3, 3, 10], shuffle=False, dtype=dtype)
    assert [part.tolist() for (part,) in flow] == [[0, 1, 2], [], [3, 4, 5, 6, 7, 8, 9]]
    next(iter(flow))[0][:] = 7
    assert values.tolist() == list(range(10))
    assert flow.lengths.tolist() == [3, 0, 7]
    assert "3 parts" in repr(flow)


@pytest.mark.parametrize("kind", PLANNED)
@pytest.mark.parametrize("collate", [partial(pad, multiple_of=3, mask="mask", values=-1), pad, ragged])
@given(
    lengths=st.lists(st.integers(0, 12), min_size=1, max_size=40),
    dtype=st.sampled_from([None, np.int64, np.float32]),
)
def test_batches_equal_those_of_made_datapoints(kind, collate, lengths, dtype):
    source = flow_of(lengths, dtype, shuffle=False)
    if dtype is None and isinstance(collate, partial):
        collate = partial(collate, values=9)  # -1 is no uint16
    made = DataFromList(list(source), shuffle=False)
    rows, points = (PLANNED[kind](ds, source.lengths, collate=collate) for ds in (source, made))
    for flow in (rows, points):
        flow.seed(1)
    for one, other in zip(rows, points, strict=True):
        same(one, other)


def test_a_function_of_ones_own_receives_a_list_of_datapoints():
    received = []
    texts = flow_of(LENGTHS, shuffle=False)
    list(
        BatchByBudget(
            texts, texts.lengths, 40, collate=lambda points: received.append(points) or [len(points)]
        )
    )
    assert all(type(points) is list for points in received)
    assert sum(map(len, received)) == len(LENGTHS)


def test_a_flow_between_makes_datapoints():
    texts = flow_of(LENGTHS, shuffle=False)
    longer = MapData(texts, lambda point: {"ids": np.append(point["ids"], 7)})
    batches = list(BatchByBudget(longer, texts.lengths + 1, 40, collate=pad))
    assert all((batch["ids"] == 7).any(axis=1).all() for batch in batches)


def test_files_are_mapped(tmp_path):
    np.save(tmp_path / "tokens.npy", np.arange(100, dtype=np.uint16))
    mapped = np.load(tmp_path / "tokens.npy", mmap_mode="r")
    flow = DataFromRagged([mapped], [0, 40, 100], shuffle=False)
    assert [len(part) for (part,) in flow] == [40, 60]
    next(iter(flow))[0][0] = 5  # a copy, which may be written to


@pytest.mark.parametrize(
    ("values", "offsets", "error", "text"),
    [
        (np.arange(3), [0, 3], ArgumentTypeError, "takes a list, tuple or dict of arrays.*received ndarray"),
        ([[1, 2, 3]], [0, 3], ArgumentTypeError, "component 0 of DataFromRagged is an array.*received list"),
        ([np.float32(1)], [0, 1], ArgumentTypeError, "with at least one axis"),
        ([np.ma.array([1, 2], mask=[0, 1])], [0, 2], ArgumentTypeError, "without masked values"),
        ([np.array(["a", None])], [0, 2], ArgumentTypeError, "received ndarray of object"),
        (
            [np.arange(3)],
            [0.0, 3.0],
            ArgumentTypeError,
            "offsets is a list or array of integers; received float",
        ),
        ([np.arange(3), np.arange(4)], [0, 3], ArgumentError, "of one length; received 3 in 0, 4 in 1"),
        ([], [0], ArgumentError, "received no component"),
        ([np.arange(3)], [1, 3], ArgumentError, "ascend from 0 to 3.*received 2 from 1 to 3.*append"),
        ([np.arange(3)], [0, 2], ArgumentError, "received 2 from 0 to 2"),
        ([np.arange(3)], [0, 2, 1, 3], ArgumentError, "ascend from 0"),
        ([np.arange(3)], np.zeros(0, int), ArgumentError, "received none"),
    ],
)
def test_arguments_are_checked(values, offsets, error, text):
    with pytest.raises(error, match=text):
        DataFromRagged(values, offsets)


def test_errors_of_padding_are_those_of_lists():
    texts = flow_of([2, 5, 3], shuffle=False)
    batches = BatchByBudget(texts, texts.lengths, 40, shuffle=False, collate=partial(pad, length=4))
    with pytest.raises(BatchError, match="datapoint 0 of the batch has 5 values in component 'ids'"):
        next(iter(batches))
    masked = BatchByBudget(texts, texts.lengths, 40, collate=partial(pad, mask="ids"))
    with pytest.raises(ArgumentError, match=r"mask=.ids. is a new key.*received dict"):
        next(iter(masked))
