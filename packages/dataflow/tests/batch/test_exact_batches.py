"""A batch holds the exact values of its datapoints in one dtype, or the error names the value."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from any_datapoints import columns, difference, few_examples, values
from hypothesis import example, given
from hypothesis import strategies as st

from towerpack_dataflow import (
    BatchData,
    BatchError,
    DataFromArrays,
    DataFromList,
    MapDataComponent,
    MultiProcessRunner,
    PadBatchData,
    WindowData,
)

MAKERS = {
    "BatchData": lambda flow, size: BatchData(flow, size),
    "PadBatchData": lambda flow, size: PadBatchData(flow, size),
    "WindowData": lambda flow, size: WindowData(flow, size, stride=size),
}
PLAIN = {bool: np.bool_, int: np.int32, float: np.float32, complex: np.complex64}


class Metres(np.ndarray):
    """An array with a unit, as libraries of physical units make them."""

    def __new__(cls, values, unit="m"):
        array = np.asarray(values).view(cls)
        array.unit = unit
        return array

    def __array_finalize__(self, obj):
        self.unit = getattr(obj, "unit", "m")


def leaves(value: Any) -> list[Any]:
    nested = type(value) in {list, tuple} or (isinstance(value, np.ndarray) and value.ndim)
    return [leaf for member in value for leaf in leaves(member)] if nested else [value]


def difference_in_batch(value: Any, row: Any) -> str | None:
    """Returns how a row of a batch differs from the value of its datapoint; None if it does not."""
    if isinstance(value, str | bytes):
        return None if type(row) is type(value) and row == value else f"{value!r} became {row!r}"
    if isinstance(value, np.ndarray | np.generic):
        assert not np.ma.is_masked(value)
        return difference(np.array(value), np.array(row))
    if isinstance(value, list | tuple):
        got, wanted = np.asarray(row).ravel().tolist(), leaves(value)
        alike = len(got) == len(wanted) and all(a == b or (a != a and b != b) for a, b in zip(got, wanted))
        return None if alike else f"{value!r} became {row!r}"
    if row.dtype != PLAIN[type(value)]:
        return f"{value!r} became {row.dtype}"
    parts = [(value.real, row.real), (value.imag, row.imag)] if type(value) is complex else [(value, row)]
    return None if all(map(number_is_kept, *zip(*parts))) else f"{value!r} became {row!r}"


def number_is_kept(value: Any, row: Any) -> bool:
    if type(value) is not float or not math.isfinite(value) or abs(value) > 2**24:
        return bool(row == value) or (value != value and row != row)
    return abs(float(row) - value) <= abs(value) * 2**-24 + 2**-149


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@few_examples(50)
@example(column=[[np.zeros(0, np.bool_)]])
@example(column=[[np.zeros(2, np.int8)], [np.ones(2, np.int8)]])
@given(column=st.one_of(columns(), st.lists(values(), min_size=1, max_size=3)))
def test_a_batch_has_the_values_of_its_datapoints_or_is_refused(make, column):
    flow = DataFromList([[value] for value in column], shuffle=False)
    try:
        ((batch,),) = make(flow, len(column))
    except BatchError as error:
        assert "component 0" in str(error)
        return
    padded = make is MAKERS["PadBatchData"]
    # A string that is taken out as a scalar has the dtype of its own length.
    rows = [batch[place, ...] for place in range(len(batch))] if batch.dtype.kind in "SU" else batch
    for value, row in zip(column, rows, strict=True):
        if padded and np.ndim(row):
            row = row[tuple(slice(length) for length in np.shape(value))]
        assert difference_in_batch(value, row) is None
    kinds = {(type(value), getattr(value, "dtype", None)) for value in column}
    empty = any(type(value) in {list, tuple} and not leaves(value) for value in column)
    if len(kinds) == 1 and not empty:  # the type of an empty list is unknown
        assert {part.dtype for (part,) in make(flow, 1)} == {batch.dtype}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_a_masked_integer_in_a_list_is_refused(make):
    masked = np.ma.MaskedArray(np.array(0, np.int8), np.array(True))
    with pytest.raises(BatchError, match="component 0"):
        list(make(DataFromList([[np.int8(0)], [[masked]]], shuffle=False), 2))


@few_examples(50)
@given(column=columns())
def test_a_batch_of_columns_is_the_same_as_one_of_datapoints(column):
    def batched(source):
        try:
            return next(iter(BatchData(source, len(column))))[0]
        except BatchError as error:
            return str(error).split(" in the flow ")[0].splitlines()[0]

    by_one = batched(DataFromList([[value] for value in column], shuffle=False))
    assert difference(by_one, batched(DataFromArrays([column], shuffle=False))) is None


def refused(value, other=None, make=BatchData):
    with pytest.raises(BatchError) as caught:
        list(make(DataFromList([{"x": value}, {"x": value if other is None else other}], shuffle=False), 2))
    return str(caught.value)


@pytest.mark.parametrize("make", [BatchData, PadBatchData, WindowData])
def test_a_mask_and_a_unit_are_refused_by_name(make):
    masked = np.ma.masked_equal([1, -999], -999)
    message = refused(np.ma.array([1, 2]), masked, make)
    assert "cannot batch: datapoint 1 of the pass has a masked array in component 'x'" in message
    assert "MapDataComponent(ds, lambda x: x.filled(0), 'x')" in message
    assert "has Metres, a subclass of numpy.ndarray, in component 'x'" in refused(Metres([1.0]), make=make)
    assert "has a masked array in component 'x'" in refused([masked, masked], make=make)
    assert "has Metres" in refused([Metres([1.0])], make=make)
    (batch,) = make([[np.ma.array([1, 2])], [np.ma.array([3, 4])]], 2)
    assert type(batch[0]) is np.ndarray and batch[0].tolist() == [[1, 2], [3, 4]]


def test_a_quantity_of_another_library_is_refused():
    class Quantity:
        units = "m"

        def __array__(self, dtype=None, copy=None):
            return np.ones(2)

    assert "has Quantity, a subclass of numpy.ndarray, in component 'x'" in refused(Quantity())


def test_a_masked_scalar_and_a_masked_record_are_refused():
    assert "has a masked array in component 'x'" in refused(np.ma.masked)
    records = np.ma.array([(1, 2.0)], mask=[(False, True)], dtype=[("a", "i4"), ("b", "f8")])
    assert "has a masked array in component 'x'" in refused(records)


def test_lists_keep_masks_and_units():
    masked = np.ma.masked_equal([1, -999], -999)
    ((kept, also),) = [batch[0] for batch in BatchData([[masked], [Metres([1.0], "km")]], 2, use_list=True)]
    assert kept.mask.tolist() == [False, True] and also.unit == "km"


@pytest.mark.parametrize("kind", [np.matrix, np.memmap, np.recarray])
def test_arrays_made_by_numpy_are_stacked(kind, tmp_path):
    if kind is np.memmap:
        value = np.memmap(tmp_path / "file", np.int32, "w+", shape=(1, 2))
    else:
        value = np.zeros((1, 2), [("a", "i4")] if kind is np.recarray else "i4").view(kind)
    ((batch,),) = BatchData([[value], [value]], 2)
    assert type(batch) is np.ndarray and batch.shape == (2, 1, 2)


@pytest.mark.parametrize(
    ("value", "advice"),
    [
        (2**31, "has int 2147483648 in component 'x'; Python's int becomes int32.*numpy.int64, 'x'"),
        (-(2**31) - 1, "numpy.int64"),
        (2**70, "numpy.int64"),
        (1700000001.25, r"has float 1700000001.25 in .* becomes float32 in a batch.*numpy.float64, 'x'"),
        (2.0**24 + 1, "numpy.float64"),
        (1e39, "numpy.float64"),
        (1e300 + 1j, "numpy.complex128"),
    ],
)  # fmt: skip
def test_a_python_number_that_a_batch_would_change_is_refused(value, advice):
    with pytest.raises(BatchError, match=advice):
        list(BatchData([{"x": value}], 1))
    with pytest.raises(BatchError, match=advice):
        list(BatchData(DataFromArrays({"x": [value, value]}), 1))
    small = type(value)(0)
    assert "datapoint 1 of the pass has " in refused(small, value)


def test_the_advice_keeps_the_numbers():
    flow = MapDataComponent([[1700000001.25], [0.5]], np.float64, 0)
    assert next(iter(BatchData(flow, 2)))[0].tolist() == [1700000001.25, 0.5]
    flow = MapDataComponent([[2**40], [1]], np.int64, 0)
    assert {numbers.dtype for (numbers,) in BatchData(flow, 1)} == {np.dtype(np.int64)}


@pytest.mark.parametrize(
    "value",
    [[2**60 + 1, 0.5], [2**63], [2**63, -1], [True, 2], [np.float32(1), np.int64(1)], [np.int8(1), 1.5]],
    ids=repr,
)
def test_a_list_that_would_change_as_an_array_is_rejected(value):
    assert "would change a member or its type" in refused(value)


def test_integers_among_floats_are_taken_where_they_stay_the_same():
    ((batch,),) = BatchData([[[1, 0.5]], [[(2**53), float("nan")]]], 2)
    assert batch.dtype == np.float64 and batch[:, 0].tolist() == [1, 2**53]


@pytest.mark.parametrize(
    ("value", "fill", "dtype"),
    [(np.ones(1, "f2"), 1e9, "float16"), (np.array(["ab"]), 0, "<U2"), (np.array(["ab"]), "abc", "<U2"),
     (np.array(["2020"], "M8[D]"), 0, r"datetime64\[D\]"), (np.ones(1, bool), 2, "bool")],
)  # fmt: skip
def test_padding_that_would_be_another_value_is_refused(value, fill, dtype):
    with pytest.raises(BatchError, match=f"{dtype} in component 0 does not hold values="):
        list(PadBatchData([[value], [value[:0]]], 2, values=fill))


@pytest.mark.parametrize(
    ("value", "fill"),
    [(np.array(["ab"]), ""), (np.array(["2020"], "M8[D]"), np.datetime64("NaT")),
     (np.ones(1, "f4"), math.nan)],
)  # fmt: skip
def test_padding_of_other_kinds(value, fill):
    ((batch,),) = PadBatchData([[value], [value[:0]]], 2, values=fill)
    assert batch.dtype == value.dtype and batch[0, 0] == value[0]
    assert batch[1, 0] == fill or (batch[1, 0] != batch[1, 0])


@pytest.mark.slow
def test_workers_reject_the_same_datapoints_as_this_process():
    masked = np.ma.masked_equal([1, -999], -999)
    flow = BatchData([[masked], [masked]], 2)
    with MultiProcessRunner(flow, 1) as runner, pytest.raises(BatchError, match="has a masked array"):
        list(runner)
