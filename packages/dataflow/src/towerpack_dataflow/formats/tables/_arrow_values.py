"""Conversion of Arrow columns to values of Python and NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any, Final, final

import numpy as np

from ...flow._columns import NUMBER_DTYPES, Field, NoColumnsError, numbers_array
from ._arrow_kinds import NONE, numpy_kind, stored_dtype

__all__ = ["ColumnArray", "converter"]

_Convert = Callable[[Any], list[Any]]


def converter(kind: Any, written: str | None = None) -> _Convert:
    """Returns a function that converts a column to a list; it can be pickled.

    A column of one of our serializers yields the written values. From other files, numbers, booleans and
    times in nanoseconds become NumPy scalars of the column's type, and lists of these become arrays. All
    other values, and the numbers in structures, are those of `to_pylist`.

    Args:
        kind: the Arrow type.
        written: the recorded kind of the written values, if any.
    """
    of_numpy = numpy_kind(written or NONE)
    if of_numpy is not None:
        word, dtype = of_numpy
        held = kind if word == "scalar" else getattr(kind, "value_type", kind)
        if _has_dtype(held) and _dtype_of(held) == stored_dtype(dtype):
            return partial(_scalars if word == "scalar" else _arrays, dtype)
    # Another program may have changed the type but kept the recorded kind of the values.
    return _of_others(kind, _is_numpy) if written is None or of_numpy else _python


_PYTHON: Final = {"bool": (bool, "bool"), "int": (int, "int64"), "float": (float, "float64")}


@final
class ColumnArray:
    """Converts a column to an array whose rows are those of a batch of its values; it can be pickled.

    Args:
        kind: the Arrow type.
        written: the recorded kind of the written values, if any.

    Attributes:
        field: shape and dtype of a row; `None` if the values have no common one.
        integers: whether the values are Python's integers.
    """

    def __init__(self, kind: Any, written: str | None) -> None:
        """Finds the layout."""
        import pyarrow as pa

        self.field: Field | None = None
        self._number: type | None = None
        self._size = 0
        if written in _PYTHON:
            number, stored = _PYTHON[written]
            if str(kind).replace("double", "float64") == stored:
                self._number, self.field = number, ((), np.dtype(NUMBER_DTYPES[number]))
            return
        of_numpy = numpy_kind(written or NONE)
        held = kind
        if written is None and pa.types.is_fixed_size_list(kind):
            held, self._size = kind.value_type, kind.list_size
        if of_numpy is not None:
            word, dtype = of_numpy
            if word == "scalar" and _has_dtype(held) and _dtype_of(held) == stored_dtype(dtype):
                self.field = (), dtype
        elif written is None and _is_numpy(held):
            self.field = (self._size,) if held is not kind else (), _dtype_of(held)

    @property
    def integers(self) -> bool:
        """Whether the values are Python's integers."""
        return self._number is int

    def __call__(self, column: Any) -> np.ndarray:
        """Returns the rows of a column, views of its memory if possible.

        Raises:
            NoColumnsError: there is a row without a value, or a number that a batch rejects.
        """
        assert self.field is not None
        shape, dtype = self.field
        held = column
        if shape:
            begin = column.offset * self._size
            held = column.values.slice(begin, len(column) * self._size)
        if column.null_count or held.null_count:
            raise NoColumnsError
        if self._number is None:
            return _numbers(held, dtype).reshape(-1, *shape)
        rows = numbers_array(self._number, _numbers(held, None))  # type: ignore[arg-type]
        if rows is None:
            raise NoColumnsError
        return rows


def _of_others(kind: Any, is_numpy: Callable[[Any], bool]) -> _Convert:
    import pyarrow as pa

    types = pa.types
    if types.is_dictionary(kind):
        return partial(_decoded, _of_others(kind.value_type, is_numpy))
    if is_numpy(kind):
        return partial(_scalars, None)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        if is_numpy(kind.value_type):
            return partial(_arrays, None)
        return partial(_lists, _of_others(kind.value_type, is_numpy))
    if types.is_struct(kind) and len({field.name for field in kind}) == kind.num_fields:
        return partial(_dicts, [(field.name, _of_others(field.type, _is_in_nanoseconds)) for field in kind])
    return _python


def _is_numpy(kind: Any) -> bool:
    return _has_dtype(kind) and (not _is_time(kind) or _is_in_nanoseconds(kind))


def _is_in_nanoseconds(kind: Any) -> bool:
    """Tells whether values are times too fine for Python's types, which end at microseconds."""
    return _is_time(kind) and bool(kind.unit == "ns")


def _has_dtype(kind: Any) -> bool:
    import pyarrow as pa

    types = pa.types
    return _is_time(kind) or types.is_integer(kind) or types.is_floating(kind) or bool(types.is_boolean(kind))


def _is_time(kind: Any) -> bool:
    import pyarrow as pa

    types = pa.types
    return bool(types.is_timestamp(kind) or types.is_duration(kind) or types.is_time64(kind))


def _python(column: Any) -> list[Any]:
    values: list[Any] = column.to_pylist()
    return values


def _decoded(convert: _Convert, column: Any) -> list[Any]:
    return convert(column.dictionary_decode())


def _scalars(dtype: np.dtype[Any] | None, column: Any) -> list[Any]:
    values: list[Any] = list(_numbers(column, dtype))
    if column.null_count:
        for place in np.flatnonzero(_missing(column)).tolist():
            values[place] = None
    return values


def _arrays(dtype: np.dtype[Any] | None, column: Any) -> list[Any]:
    """Returns a new array for each list, a masked one if it contains a null; None for a null."""
    numbers = _numbers(column.values, dtype)
    missing = _missing(column.values) if column.values.null_count else None

    def array(begin: int, end: int) -> np.ndarray:
        values = numbers[begin:end].copy()
        if missing is None or not missing[begin:end].any():
            return values
        return np.ma.MaskedArray(values, missing[begin:end].copy())

    return [None if span is None else array(*span) for span in _spans(column)]


def _lists(convert: _Convert, column: Any) -> list[Any]:
    values = convert(column.values)
    return [None if span is None else values[slice(*span)] for span in _spans(column)]


def _dicts(fields: list[tuple[str, _Convert]], column: Any) -> list[Any]:
    parts = [convert(column.field(place)) for place, (_, convert) in enumerate(fields)]
    names = [name for name, _ in fields]
    rows: list[Any] = [dict(zip(names, row)) for row in zip(*parts)] if names else [{} for _ in column]
    return [None if gone else row for gone, row in zip(_missing(column).tolist(), rows)]


def _spans(column: Any) -> Iterator[tuple[int, int] | None]:
    """Yields the bounds of each list in `column.values`; None for a null."""
    import pyarrow as pa

    if pa.types.is_fixed_size_list(column.type):
        size = column.type.list_size
        offsets = (np.arange(len(column) + 1) + column.offset) * size
    else:
        offsets = column.offsets.to_numpy()
    ends = offsets.tolist()
    spans = pairwise(ends)
    if not column.null_count:
        return spans
    return (None if gone else span for gone, span in zip(_missing(column).tolist(), spans))


def _missing(column: Any) -> np.ndarray:
    missing: np.ndarray = column.is_null().to_numpy(zero_copy_only=False)
    return missing


def _numbers(column: Any, dtype: np.dtype[Any] | None) -> np.ndarray:
    """Returns the numbers of a column, a view of its memory if possible; nulls have arbitrary values."""
    import pyarrow as pa

    content, begin, count = column.buffers()[1], column.offset, len(column)
    if not count:
        numbers = np.empty(0, _dtype_of(column.type))
    elif pa.types.is_boolean(column.type):
        bits = np.frombuffer(content, np.uint8)[begin // 8 : (begin + count + 7) // 8]
        numbers = np.unpackbits(bits, bitorder="little")[begin % 8 :][:count].view(bool)
    else:
        held = _dtype_of(column.type)
        numbers = np.frombuffer(content, held, count, begin * held.itemsize)
    return numbers if dtype is None else numbers.astype(dtype, copy=False)


def _dtype_of(kind: Any) -> np.dtype[Any]:
    import pyarrow as pa

    if pa.types.is_timestamp(kind):
        return np.dtype(f"M8[{kind.unit}]")
    if pa.types.is_duration(kind) or pa.types.is_time64(kind):
        return np.dtype(f"m8[{kind.unit}]")
    dtype: np.dtype[Any] = np.dtype(kind.to_pandas_dtype())
    return dtype
