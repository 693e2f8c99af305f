"""Conversion of Arrow columns to values of Python and NumPy."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import partial
from itertools import pairwise
from typing import Any, Final, final

import numpy as np

from ..._errors import FormatError
from ...flow._columns import NUMBER_DTYPES, Field, NoColumnsError, numbers_array
from .._plain_values import shown

__all__ = [
    "KIND_KEY",
    "NONE",
    "ColumnArray",
    "arrow_column",
    "converter",
    "kind_of",
    "numpy_kind",
    "stored_dtype",
    "written_kind",
]

KIND_KEY: Final = b"towerpack"  # key in a field's metadata for the kind of the column's values
NONE: Final = ""  # the kind of a column with only None

# Kinds are strings in the file format: Python types; "scalar <f4" and "array <f4" for NumPy; "python" for all
# other values that Arrow restores unchanged.
_PLAIN: Final = {bool: "bool", int: "int", float: "float", str: "str", bytes: "bytes"}
_NESTED: Final = "python"
_OF_NUMPY: Final = r"(scalar|array) [<>|][biufmM]\d(\[\d{0,9}[A-Za-z]{1,2}\])?"
_WORDS: Final = re.compile(rf"({'|'.join([*_PLAIN.values(), _NESTED])}|{_OF_NUMPY})?")
_UNITS: Final = ("ms", "us", "ns")  # units of times in Parquet, which has no seconds
_WIDEST: Final = 8  # bytes of a number in Arrow
_MOST_NUMBERS: Final = 2**31 - 1  # in the lists of one Arrow array


def kind_of(value: Any) -> str:
    """Returns the kind of a value.

    Raises:
        TypeError: no column can hold such values.

    Example:
        >>> kind_of(1), kind_of(np.float32(1)), kind_of(np.zeros(3, ">i2")), kind_of([1])
        ('int', 'scalar <f4', 'array >i2', 'python')
    """
    if value is None:
        return NONE
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError("a masked array has missing values; store its data and its mask")
    if isinstance(value, np.ndarray):
        if value.ndim != 1:
            raise TypeError(
                f"an array has one axis; received one of shape {value.shape}: use NumpySerializer"
            )
        return f"array {_checked(value.dtype).str}"
    if isinstance(value, np.generic):
        return f"scalar {_checked(value.dtype).str}"
    return _PLAIN.get(type(value), _NESTED)


def numpy_kind(kind: str) -> tuple[str, np.dtype[Any]] | None:
    """Returns "scalar" or "array", and the dtype, of a NumPy kind; None for another kind."""
    word, _, dtype = kind.partition(" ")
    return (word, np.dtype(dtype)) if dtype else None


def written_kind(field: Any) -> str | None:
    """Returns the recorded kind of the values of a column; None if it is not recorded.

    Raises:
        FormatError: the kind is unknown to this release.
    """
    kind = (field.metadata or {}).get(KIND_KEY)
    if kind is None:
        return None
    text = str(kind, "utf-8", "replace")
    try:
        if _WORDS.fullmatch(text):
            numpy_kind(text)
            return text
    except (ValueError, TypeError):  # from NumPy, for the unit of a time
        pass
    raise FormatError(
        f"column {field.name!r} has values of the kind {shown(text)}, unknown to this release; "
        "the file was written by a later release, or is damaged"
    )


def stored_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Returns the dtype in which Arrow stores values of `dtype`."""
    if dtype.kind not in "mM":
        return dtype.newbyteorder("=")
    unit, count = np.datetime_data(dtype)
    return np.dtype(f"{dtype.kind}8[{unit if unit in _UNITS and count == 1 else _UNITS[0]}]")


def arrow_column(values: Sequence[Any], kind: str, kept: Any) -> Any:
    """Returns values of one kind, and None, as an Arrow column that restores them unchanged.

    Args:
        values: values of the column.
        kind: kind of the values.
        kept: the Arrow type of the column if it is known, which matters for the kind "python".

    Raises:
        ValueError, TypeError, OverflowError, ArrowException: Arrow cannot represent a value.
    """
    import pyarrow as pa

    of_numpy = numpy_kind(kind)
    if of_numpy is None:
        types = {"bool": pa.bool_, "int": pa.int64, "float": pa.float64, "str": pa.string, "bytes": pa.binary}
        if kind != _NESTED:
            return pa.array(values, types[kind]() if kind in types else pa.null())
        column = pa.array(values, kept)
        _compare(values, column.to_pylist())
        return column
    word, dtype = of_numpy
    there = [value for value in values if value is not None]
    missing = np.array([value is None for value in values])
    if word == "scalar":
        numbers = np.zeros(len(values), dtype)
        numbers[~missing] = np.array(there, dtype)
        return _arrow_numbers(numbers, missing)
    numbers = np.concatenate(there) if there else np.empty(0, dtype)
    if len(numbers) > _MOST_NUMBERS:
        raise ValueError(f"{len(values)} arrays have {len(numbers)} numbers; use fewer rows at a time")
    ends = np.cumsum([0 if value is None else len(value) for value in values], dtype=np.int32)
    offsets = np.concatenate([np.zeros(1, np.int32), ends])
    return pa.ListArray.from_arrays(
        offsets, _arrow_numbers(numbers.astype(dtype), None), mask=pa.array(missing)
    )


def _checked(dtype: np.dtype[Any]) -> np.dtype[Any]:
    is_time = dtype.kind in "mM" and np.datetime_data(dtype)[0] != "generic"
    if not is_time and (dtype.kind not in "biuf" or dtype.itemsize > _WIDEST):
        raise TypeError(
            f"the dtype {dtype} has no type in Arrow; use numbers of up to 64 bits, booleans or times"
        )
    return dtype


def _arrow_numbers(numbers: np.ndarray, missing: np.ndarray | None) -> Any:
    """Returns numbers as a column; NaN and NaT are values, not nulls."""
    import pyarrow as pa

    stored = numbers.astype(stored_dtype(numbers.dtype))
    if stored.dtype.kind not in "mM":
        return pa.array(stored, mask=missing, from_pandas=False)
    unit = np.datetime_data(stored.dtype)[0]
    if not np.array_equal(stored.astype(numbers.dtype).view(np.int64), numbers.view(np.int64)):
        raise ValueError(f"a time of {numbers.dtype} is out of range in {unit}, the unit in Arrow")
    kinds: dict[str, Callable[[str], Any]] = {"M": pa.timestamp, "m": pa.duration}
    return pa.array(stored.view(np.int64), mask=missing).view(kinds[stored.dtype.kind](unit))


def _compare(values: Sequence[Any], read: Sequence[Any]) -> None:
    for value, back in zip(values, read):
        if not _identical(value, back):
            raise ValueError(f"it would be read as {shown(back)}")


def _identical(value: Any, back: Any) -> bool:
    if type(value) is not type(back):
        return False
    if type(value) is list:
        return len(value) == len(back) and all(map(_identical, value, back))
    if type(value) is dict:
        return [*value] == [*back] and all(map(_identical, value.values(), back.values()))
    return _text(value) == _text(back)


def _text(value: Any) -> str:
    # UTC has a separate class in each library, with one name; NaN is not equal to itself, and -0.0 equals
    # 0.0.
    return (
        f"{value.isoformat()}, {value.fold}, {value.tzinfo}" if isinstance(value, datetime) else repr(value)
    )


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
    if types.is_map(kind):
        return partial(
            _maps, *(_of_others(each, _is_in_nanoseconds) for each in (kind.key_type, kind.item_type))
        )
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


def _maps(keys: _Convert, items: _Convert, column: Any) -> list[Any]:
    pairs = list(zip(keys(column.keys), items(column.items)))
    return [None if span is None else pairs[slice(*span)] for span in _spans(column)]


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
