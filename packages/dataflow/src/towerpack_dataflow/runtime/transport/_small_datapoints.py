"""Many small datapoints as a few columns: one array to send in place of hundreds."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from operator import attrgetter, countOf, itemgetter
from sys import getrefcount
from typing import Any, NamedTuple, final

import numpy as np

from ...storage import snapshot

__all__ = ["ColumnTable", "DatapointList", "QuickList", "from_table", "to_table"]

_FEWEST = 8  # below that, finding out costs as much as it saves
_SAMPLE = 8  # arrays to look at, from each end of a stretch
_SHAPE, _DTYPE, _BASE = attrgetter("shape"), attrgetter("dtype"), attrgetter("base")
_HAS_OBJECTS = attrgetter("dtype.hasobject")
_LARGEST = 2**12  # bytes of an array; copying a larger one twice costs more than it saves
_PLAIN = frozenset({int, float, bool, str, bytes, type(None)})


class ColumnTable(NamedTuple):
    """Datapoints of one outline, by component.

    Attributes:
        kind: dict, list or tuple.
        keys: of dicts.
        columns: for each component an array, of which each row is a value, or the list of values.
    """

    kind: type
    keys: tuple[Any, ...]
    columns: tuple[Any, ...]

    def rows(self) -> list[Any]:
        """Returns the datapoints again. Arrays in them are views of the columns."""
        rows: Iterable[tuple[Any, ...]] = zip(*self.columns)
        if self.kind is tuple:
            return list(rows)
        if self.kind is list:
            return list(map(list, rows))
        keys = self.keys
        return [dict(zip(keys, row)) for row in rows]


def to_table(datapoints: list[Any]) -> Any:
    """Returns `datapoints` as a `ColumnTable` if they are alike and simple enough, else unchanged."""
    if len(datapoints) < _FEWEST or len(set(map(type, datapoints))) > 1:
        return datapoints
    parts = _parts(datapoints)
    return (_table(datapoints[0], parts) if parts else None) or datapoints


def _parts(datapoints: list[Any]) -> list[list[Any]] | None:
    """Returns the values of each component of datapoints of one type; `None` if these have no one outline."""
    first = datapoints[0]
    kind = type(first)
    if kind is dict:
        keys = tuple(first)
        if countOf(map(tuple, datapoints), keys) < len(datapoints):
            return None
        return [list(map(itemgetter(key), datapoints)) for key in keys]
    if kind in {list, tuple} and len(set(map(len, datapoints))) == 1:
        return [list(part) for part in zip(*datapoints)]
    return None


def _table(first: Any, parts: list[list[Any]]) -> ColumnTable | None:
    """Makes a table of the values of all components, if it can."""
    columns = [_column(part) for part in parts]
    if any(column is None for column in columns):
        return None
    return ColumnTable(type(first), tuple(first) if type(first) is dict else (), tuple(columns))


def from_table(value: Any) -> Any:
    """Undoes `to_table`."""
    return value.rows() if type(value) is ColumnTable else value


class _Column(NamedTuple):
    """How the values of one component are collected: arrays as their bytes."""

    key: Any
    kind: Any
    dtype: np.dtype | None
    shape: tuple[int, ...]
    values: list[Any]

    def joined(self) -> Any:
        if self.dtype is None:
            return _column(self.values)
        return np.frombuffer(bytearray().join(self.values), self.dtype).reshape(-1, *self.shape)


@final
class QuickList:
    """Collects datapoints as they come, and says afterwards whether that was right.

    Args:
        stays: whether the datapoints stay in this process; else they are pickled at once.
    """

    def __init__(self, stays: bool = False) -> None:
        """Begins empty."""
        self._stays = stays
        self._datapoints: list[Any] = []
        self._first: list[bytes] = []

    def __len__(self) -> int:
        """Returns how many there are."""
        return len(self._datapoints)

    def extend(self, datapoints: Iterator[Any]) -> None:
        """Appends datapoints. Those before one that raises an error are kept."""
        if not self._datapoints:
            for datapoint in islice(datapoints, 1):
                self._datapoints.append(datapoint)
                self._first = _contents(datapoint)
        self._datapoints.extend(datapoints)

    def take(self) -> Any:
        """Returns the datapoints; `None` if memory of one may have been written again for a later one.

        Memory that nothing else refers to is safe. For rows of a larger array, it is enough to look at a few,
        and whether the first still is what it was: whoever uses memory again does so sooner or later for
        each datapoint.
        """
        datapoints = self._datapoints
        kinds = set(map(type, datapoints))
        if len(datapoints) <= 1 or kinds <= _PLAIN:
            return self._as_they_are()
        alone = _alone(datapoints, _ALONE - 1)
        if len(kinds) > 1 or not (alone or _distinct(datapoints)):
            return None
        parts = _parts(datapoints)
        if not parts or not all(map(_separate, parts)) or _contents(datapoints[0]) != self._first:
            return None
        if self._stays:
            return self._as_they_are() if alone and all(map(_fresh, parts)) else None
        return datapoints if len(datapoints) < _FEWEST else _table(datapoints[0], parts)

    def _as_they_are(self) -> list[Any]:
        if self._stays:  # then the last one is not sent before its maker goes on
            self._datapoints[-1:] = map(snapshot, self._datapoints[-1:])
        return self._datapoints


def _fresh(values: list[Any]) -> bool:
    """Says whether nothing else refers to any of several values, which `_separate` has found separate."""
    if type(values[0]) is not np.ndarray:
        return True
    if any(map(_HAS_OBJECTS, values)) or set(map(type, map(_BASE, values))) != {type(None)}:
        return False
    return _alone(values, _ALONE)


def _contents(datapoint: Any) -> list[bytes]:
    """Returns the bytes of the arrays in a datapoint, except those of large ones."""
    values = datapoint.values() if type(datapoint) is dict else datapoint
    return [
        value.tobytes()
        for value in (values if type(datapoint) in {dict, list, tuple} else ())
        if type(value) is np.ndarray and value.nbytes <= _LARGEST
    ]


def _separate(values: list[Any]) -> bool:
    """Says whether no two values of a component have the same memory, as far as that can be told quickly."""
    kinds = set(map(type, values))
    if kinds <= _PLAIN or all(issubclass(kind, np.number | np.bool_) for kind in kinds):
        return True
    if kinds != {np.ndarray} or (len(values) < _FEWEST and any(map(_HAS_OBJECTS, values))):
        return False
    if values[0].nbytes > _LARGEST:  # a snapshot of one costs little beside making it
        return False
    bases = set(map(type, map(_BASE, values)))
    if bases == {type(None)}:
        return _alone(values, _ALONE)
    few = values if len(values) <= 2 * _SAMPLE else values[:_SAMPLE] + values[-_SAMPLE:]
    starts = {array.__array_interface__["data"][0] for array in few}
    return type(None) not in bases and len(starts) == len(few)


def _alone(values: list[Any], references: int) -> bool:
    """Says whether all values have that few references; the last is sent now, and may have more."""
    return max(map(getrefcount, islice(values, len(values) - 1))) <= references


def _distinct(values: list[Any]) -> bool:
    return len(set(map(id, values))) == len(values)


def _references(datapoint: list[np.ndarray]) -> int:
    arrays = [part for (part,) in [datapoint]]
    return max(map(getrefcount, arrays))


_ALONE = _references([np.empty(1)])  # the datapoint, the list and the call; releases of Python differ in that


@final
class DatapointList:
    """Collects datapoints as they are when they are appended: whoever made them may change them later.

    Small datapoints that are alike are taken apart into columns at once, which is a snapshot and half of the
    way to a message.

    Args:
        count: how many datapoints are expected; the last of them is sent before its maker goes on, and needs
            no snapshot. 0 if they stay in this process.
    """

    def __init__(self, count: int) -> None:
        """Begins empty."""
        self._tries = count >= _FEWEST
        self._expected = count
        self._kind: Any = list
        self._keys: tuple[Any, ...] = ()
        self._columns: list[_Column] = []
        self._datapoints: list[Any] = []

    def __len__(self) -> int:
        """Returns how many there are."""
        return len(self._columns[0].values if self._columns else self._datapoints)

    def extend(self, datapoints: Iterator[Any]) -> None:
        """Appends datapoints. Those before one that raises an error are kept."""
        if self._tries:
            for datapoint in islice(datapoints, 1):
                self._tries = False
                self._columns = self._begun(datapoint)
                datapoints = chain((datapoint,), datapoints)
        if self._columns:
            for misfit in self._fill(datapoints):
                self._datapoints = self._rows()
                self._columns = []
                datapoints = chain((misfit,), datapoints)
        if not self._columns:
            made, last = self._datapoints, self._expected - 1
            for datapoint in datapoints:
                fixed = type(datapoint) in _PLAIN or len(made) == last
                made.append(datapoint if fixed else snapshot(datapoint))

    def take(self) -> Any:
        """Returns the datapoints, as a list or a `ColumnTable`."""
        if not self._columns:
            return self._datapoints
        joined = tuple([column.joined() for column in self._columns])
        if any(column is None for column in joined):
            return self._rows()
        return ColumnTable(self._kind, self._keys, joined)

    def _begun(self, datapoint: Any) -> list[_Column]:
        """Returns empty columns for datapoints like this one; none if columns do not suit it."""
        kind = self._kind = type(datapoint)
        if kind not in {list, tuple, dict}:
            return []
        self._keys = tuple(datapoint) if kind is dict else ()
        columns = []
        for key in datapoint if kind is dict else range(len(datapoint)):
            value = datapoint[key]
            if type(value) is np.ndarray:
                if not 0 < value.nbytes <= _LARGEST or not value.ndim or value.dtype.hasobject:
                    return []
                columns.append(_Column(key, np.ndarray, value.dtype, value.shape, []))
            elif type(value) in _PLAIN or (isinstance(value, np.generic) and value.dtype.kind in "biufc"):
                columns.append(_Column(key, type(value), None, (), []))
            else:
                return []
        return columns

    def _fill(self, datapoints: Iterator[Any]) -> list[Any]:
        """Appends the components of datapoints to the columns; returns the first datapoint that does not fit.

        A million times a second, so written out.
        """
        expected, keys, columns = self._kind, list(self._keys), self._columns
        width = len(columns)
        for datapoint in datapoints:
            if type(datapoint) is not expected:
                return [datapoint]
            if list(datapoint) != keys if expected is dict else len(datapoint) != width:
                return [datapoint]
            for key, kind, dtype, shape, values in columns:
                value = datapoint[key]
                if type(value) is not kind:
                    break
                if dtype is None:
                    values.append(value)
                elif value.shape == shape and (value.dtype is dtype or value.dtype == dtype):
                    values.append(value.tobytes())
                else:
                    break
            else:
                continue
            length = len(columns[-1].values)
            for column in columns:  # those before the one that does not fit
                del column.values[length:]
            return [datapoint]
        return []

    def _rows(self) -> list[Any]:
        """Returns what the columns hold, as datapoints again."""
        parts = [column.values if column.dtype is None else list(column.joined()) for column in self._columns]
        return ColumnTable(self._kind, self._keys, tuple(parts)).rows()


def _column(values: list[Any]) -> Any:
    """Puts the values of one component together; `None` if they do not go together."""
    kinds = set(map(type, values))
    if kinds <= _PLAIN:
        return values
    if len(kinds) > 1:
        return None
    first = values[0]
    if isinstance(first, np.generic):
        return np.array(values, first.dtype) if first.dtype.kind in "biufc" else None
    if kinds != {np.ndarray} or not first.ndim or first.dtype.hasobject:
        return None
    shape, dtype, count = first.shape, first.dtype, len(values)
    # Without loops of Python: this is done for each of a million small arrays a second.
    if not first.size or countOf(map(_SHAPE, values), shape) < count:
        return None
    if countOf(map(_DTYPE, values), dtype) < count:
        return None
    if first.nbytes <= _LARGEST:
        # This fails for arrays that are not contiguous, or of a dtype that buffers cannot have.
        with contextlib.suppress(TypeError, ValueError, BufferError):
            return np.frombuffer(bytearray().join(values), dtype).reshape(count, *shape)
    column = np.empty((count, *shape), dtype)
    np.concatenate(values, out=column.reshape(-1, *shape[1:]))
    return column
