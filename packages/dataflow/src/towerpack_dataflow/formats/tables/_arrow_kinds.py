"""The kinds of values in a column: Python's or NumPy's, which Arrow's types do not distinguish."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final

import numpy as np

from ..._errors import FormatError
from .._shown_value import shown

__all__ = ["KIND_KEY", "NONE", "arrow_column", "kind_of", "numpy_kind", "stored_dtype", "written_kind"]

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
        return _numbers(numbers, missing)
    numbers = np.concatenate(there) if there else np.empty(0, dtype)
    if len(numbers) > _MOST_NUMBERS:
        raise ValueError(f"{len(values)} arrays have {len(numbers)} numbers; use fewer rows at a time")
    ends = np.cumsum([0 if value is None else len(value) for value in values], dtype=np.int32)
    offsets = np.concatenate([np.zeros(1, np.int32), ends])
    return pa.ListArray.from_arrays(offsets, _numbers(numbers.astype(dtype), None), mask=pa.array(missing))


def _checked(dtype: np.dtype[Any]) -> np.dtype[Any]:
    is_time = dtype.kind in "mM" and np.datetime_data(dtype)[0] != "generic"
    if not is_time and (dtype.kind not in "biuf" or dtype.itemsize > _WIDEST):
        raise TypeError(
            f"the dtype {dtype} has no type in Arrow; use numbers of up to 64 bits, booleans or times"
        )
    return dtype


def _numbers(numbers: np.ndarray, missing: np.ndarray | None) -> Any:
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
