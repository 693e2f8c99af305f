"""The layout of batches that a flow fills itself, dtypes of Python numbers, and sizes in bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from ctypes import c_float
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ._epoch import Epoch
from ._resume_marks import Marks

__all__ = [
    "NUMBER_DTYPES",
    "Blocks",
    "Columns",
    "Field",
    "NoColumnsError",
    "alone",
    "assembled",
    "block_of",
    "cast",
    "castable",
    "datapoint_size",
    "duration",
    "number_kind",
    "numbers_array",
    "stays_same",
]


Field = tuple[tuple[int, ...], np.dtype]
"""Shape and dtype of an array."""

Blocks = Iterator[tuple[Any, int, Sequence[Marks]]]
"""Blocks of datapoints, each with their number, and the marks after each of them; no marks: none are left."""

NUMBER_DTYPES = {bool: np.bool_, int: np.int32, float: np.float32, complex: np.complex64}
"""The dtype of Python's numbers in a batch."""

_EXACT_DTYPES = {bool: np.bool_, int: np.int64, float: np.float64, complex: np.complex128}
# To gather this many bytes takes about as long as the call does.
_BYTES_AT_ONCE, _MOST_AT_ONCE = 2**16, 64
_INT32_LIMIT = 2**31
_WHOLE = 2.0**24  # up to here float32 holds each integer


class NoColumnsError(Exception):
    """Raised by `Columns.gather` for datapoints without the layout, such as a row without a value.

    The arrays may have been written to. The datapoints are then stacked one by one.
    """


class Columns(NamedTuple):
    """The layout of a flow's batches.

    Attributes:
        kind: the type of datapoints and batches.
        keys: of the components, in order.
        fields: shape and dtype of each component in one datapoint.
        gather: writes the datapoints of an epoch with the numbers of a range into the rows of arrays, one
            for each component. The rows equal a batch of the datapoints bit for bit. The range is not empty,
            and lies within the pass. It may raise `NoColumnsError`.
        integers: whether a component is Python's integers, which `fields` have as int32.
    """

    kind: type[Any]
    keys: Sequence[Any]
    fields: Sequence[Field]
    gather: Callable[[Epoch, range, Sequence[np.ndarray]], None]
    integers: bool = False

    def rows(self, count: int) -> list[Field]:
        """Returns shape and dtype of each component in a batch of `count`."""
        return [((count, *shape), dtype) for shape, dtype in self.fields]

    def empty(self, count: int) -> list[np.ndarray]:
        """Returns new arrays for a batch of `count`."""
        return [np.empty(shape, dtype) for shape, dtype in self.rows(count)]

    def batch(self, epoch: Epoch, wanted: range, out: Sequence[np.ndarray]) -> Any:
        """Returns a batch of the arrays `out`, filled; `None` if its datapoints have no common layout."""
        try:
            self.gather(epoch, wanted, out)
        except NoColumnsError:
            return None
        return self.assembled(out)

    def gathered(self, epoch: Epoch, wanted: range) -> list[np.ndarray] | None:
        """Returns new arrays with the rows of several batches; `None` if some cannot be gathered."""
        rows = self.empty(len(wanted))
        try:
            self.gather(epoch, wanted, rows)
        except Exception:  # raised again for the batch that it belongs to
            return None
        return rows

    def most_at_once(self, batch_size: int, most_bytes: int = _BYTES_AT_ONCE) -> int:
        """Returns the maximum number of batches to gather in one call: several if they are small."""
        size = sum(prod(shape) * dtype.itemsize for shape, dtype in self.rows(batch_size))
        return min(max(most_bytes // max(size, 1), 1), _MOST_AT_ONCE)

    def divided(self, rows: Sequence[np.ndarray], batch_size: int) -> Any:
        """Returns a block of batches with these rows; their number is a multiple of the batch size."""
        batches = len(rows[0]) // batch_size
        return self.assembled([each.reshape(batches, batch_size, *each.shape[1:]) for each in rows])

    def assembled(self, components: Sequence[np.ndarray]) -> Any:
        """Returns a batch with these components."""
        return assembled(self.kind, self.keys, components)


def assembled(kind: type[Any], keys: Sequence[Any], values: Sequence[Any]) -> Any:
    """Assembles components into a datapoint of type `kind`."""
    if issubclass(kind, dict):
        return dict(zip(keys, values))
    if issubclass(kind, list):
        return list(values)
    make = getattr(kind, "_make", tuple)  # a named tuple keeps its names
    return make(values)


def alone(batch: Any) -> Any:
    """Returns a block with one batch."""
    return _changed(batch, lambda rows: rows[None])


def block_of(batch: Any, size: int, count: int, first: int = 0) -> Any:
    """Returns a block of `count` batches, divided from a larger batch from its datapoint `first` on."""
    stop = first + size * count
    return _changed(batch, lambda rows: rows[first:stop].reshape(count, size, *rows.shape[1:]))


def _changed(batch: Any, change: Callable[[np.ndarray], np.ndarray]) -> Any:
    keyed = isinstance(batch, dict)
    values = list(map(change, batch.values() if keyed else batch))
    return assembled(type(batch), list(batch) if keyed else (), values)


def number_kind(kind: type) -> type | None:
    """Returns which of Python's number types `kind` is; `None` for NumPy types, which inherit from them."""
    if issubclass(kind, np.generic):
        return None
    return next((known for known in NUMBER_DTYPES if issubclass(kind, known)), None)


def stays_same(value: Any) -> bool:
    """Tells whether a batch may hold a Python number in the dtype of its kind.

    A float is rounded, as a literal like 0.1 is. Above 2**24, float32 cannot represent every integer, so the
    number must be exact in float32: ids and Unix times lie in that range.
    """
    if isinstance(value, int):
        return -_INT32_LIMIT <= value < _INT32_LIMIT
    if isinstance(value, complex):
        return stays_same(value.real) and stays_same(value.imag)
    return bool(abs(value) <= _WHOLE or c_float(value).value == value or value != value)


def numbers_array(kind: type, values: Sequence[Any]) -> np.ndarray | None:
    """Returns numbers of one of Python's types as a batch holds them; `None` if a batch rejects one."""
    if kind not in NUMBER_DTYPES:
        return None
    try:
        exact: np.ndarray = np.array(values, _EXACT_DTYPES[kind])
    except OverflowError:
        return None
    parts = exact.view(np.float64) if kind is complex else exact
    doubtful = parts[~((parts >= -_WHOLE) & (parts <= _WHOLE))]
    return exact.astype(NUMBER_DTYPES[kind]) if all(map(stays_same, doubtful.tolist())) else None


_NUMBER_BYTES = 8


def datapoint_size(value: Any) -> int:
    """Counts the bytes of a datapoint's values, without Python's overhead: a number counts for 8."""
    if isinstance(value, (np.ndarray, np.generic)):
        return int(value.nbytes)
    if isinstance(value, (str, bytes)):
        return len(value)
    if isinstance(value, dict):
        return sum(map(datapoint_size, value.values()))
    if isinstance(value, (list, tuple)):
        return sum(map(datapoint_size, value))
    return _NUMBER_BYTES


def duration(seconds: float) -> str:
    """Formats seconds as text, in ms or us.

    Example:
        >>> duration(0.0025), duration(3e-6)
        ('2.5 ms', '3.0 us')
    """
    return f"{1e3 * seconds:.1f} ms" if seconds >= 1e-3 else f"{1e6 * seconds:.1f} us"


# By kind: any other conversion would change the meaning, such as text for a number.
_BECOMES = {
    "b": "biufc",
    "i": "iufc",
    "u": "iufc",
    "f": "fc",
    "c": "c",
    "S": "S",
    "U": "U",
}
_LARGEST = 2.0**63  # floats below this size become integers again


def castable(source: np.dtype, target: np.dtype) -> bool:
    """Returns whether values of a dtype keep their meaning in another dtype.

    Example:
        >>> castable(np.dtype("i8"), np.dtype("f4")), castable(np.dtype("f4"), np.dtype("i8"))
        (True, False)
        >>> castable(np.dtype("m8[Y]"), np.dtype("m8[D]"))  # a year has no fixed number of days
        False
    """
    if source.kind == target.kind and source.kind in "mM":
        return np.can_cast(source, target, "same_kind")
    return source == target or target.kind in _BECOMES.get(source.kind, "")


def cast(array: np.ndarray, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """Returns an array converted to a dtype, and a mask of changed values; NaN equals NaN.

    Args:
        array: array of a dtype that is `castable` to the other one.
        dtype: dtype of the result.

    Example:
        >>> cast(np.array([1, 300]), np.dtype("u1"))
        (array([ 1, 44], dtype=uint8), array([False,  True]))
    """
    with np.errstate(all="ignore"):
        try:
            converted = array.astype(dtype)
        except (OverflowError, TypeError):  # of times outside the range of a unit
            return np.zeros(array.shape, dtype), np.ones(array.shape, bool)
        back = _back(converted, array.dtype)
        wrong = back != array
        if array.dtype.kind in "fcMm":
            wrong &= (back == back) | (array == array)
    if array.dtype.kind in "iu":
        wrong |= _beyond(array, converted)
    return converted, np.asarray(wrong)


def _back(converted: np.ndarray, dtype: np.dtype) -> np.ndarray:
    parts: Any = converted.real if converted.dtype.kind == "c" and dtype.kind != "c" else converted
    return np.asarray(parts.astype(dtype))


def _beyond(array: np.ndarray, converted: np.ndarray) -> np.ndarray:
    """Returns where an integer changed its sign, or became a float beyond all integer types."""
    if converted.dtype.kind in "iu":
        return np.asarray((array < 0) != (converted < 0))
    return np.asarray(~(np.abs(converted) < _LARGEST))
