"""Many small datapoints as a few columns: one array to send in place of hundreds."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from operator import attrgetter, itemgetter
from sys import getrefcount
from typing import Any, NamedTuple, final

import numpy as np

from ...storage import snapshot

__all__ = ["ColumnTable", "DatapointList", "QuickList", "from_table", "to_table"]

_FEWEST = 8  # below that, finding out costs as much as it saves
_SAMPLE = 8  # arrays to look at, from each end of a stretch
_SHAPE, _DTYPE, _BASE = attrgetter("shape"), attrgetter("dtype"), attrgetter("base")
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
    return _table(datapoints, False) or datapoints


def _table(datapoints: list[Any], separate: bool) -> ColumnTable | None:
    """Makes a table if it can; `separate` says whether arrays must have memory of their own."""
    if len(datapoints) < _FEWEST or len(set(map(type, datapoints))) > 1:
        return None
    first = datapoints[0]
    kind = type(first)
    if kind is dict:
        keys = tuple(first)
        if set(map(tuple, datapoints)) != {keys}:
            return None
        parts: list[list[Any]] = [list(map(itemgetter(key), datapoints)) for key in keys]
    elif kind in {list, tuple} and len(set(map(len, datapoints))) == 1:
        keys = ()
        parts = [list(part) for part in zip(*datapoints)]
    else:
        return None
    if separate and not all(map(_separate, parts)):
        return None
    columns = [_column(part) for part in parts]
    if not columns or any(column is None for column in columns):
        return None
    return ColumnTable(kind, keys, tuple(columns))


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

    Attributes:
        append: appends a datapoint.
    """

    def __init__(self) -> None:
        """Begins empty."""
        self._datapoints: list[Any] = []
        self.append = self._datapoints.append  # a million times a second

    def take(self) -> Any:
        """Returns the datapoints; `None` if memory of one may have been written again for a later one.

        Memory that nothing else refers to is safe. For rows of a larger array, it is enough to look at a few:
        whoever uses memory again does so sooner or later for each datapoint.
        """
        datapoints = self._datapoints
        if len(datapoints) <= 1:
            return datapoints
        return _table(datapoints, True) if len(set(map(id, datapoints))) == len(datapoints) else None


def _separate(values: list[Any]) -> bool:
    """Says whether no two arrays of a component have the same memory, as far as that can be told quickly."""
    if type(values[0]) is not np.ndarray or len(set(map(type, values))) > 1:
        return True
    bases = set(map(type, map(_BASE, values)))
    if bases == {type(None)}:
        return max(map(getrefcount, islice(values, len(values) - 1))) <= _ALONE  # the last is sent now
    few = values if len(values) <= 2 * _SAMPLE else values[:_SAMPLE] + values[-_SAMPLE:]
    starts = {array.__array_interface__["data"][0] for array in few}
    return type(None) not in bases and len(starts) == len(few)


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
        self._left = count
        self._kind: Any = list
        self._keys: tuple[Any, ...] = ()
        self._columns: list[_Column] = []
        self._datapoints: list[Any] = []

    def append(self, datapoint: Any) -> None:
        """Appends a datapoint."""
        self._left -= 1
        columns = self._columns
        if columns:
            if self._put(datapoint):
                return
            self._datapoints = self._rows()
            self._columns = []
        elif self._tries:
            self._tries = False
            self._columns = self._begun(datapoint)
            if self._columns and self._put(datapoint):
                return
            self._columns = []
        self._datapoints.append(snapshot(datapoint) if self._left else datapoint)

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

    def _put(self, datapoint: Any) -> bool:
        """Appends the components to the columns if all fit. A million times a second, so written out."""
        if type(datapoint) is not self._kind or len(datapoint) != len(self._columns):
            return False
        if self._kind is dict and tuple(datapoint) != self._keys:
            return False
        for key, kind, dtype, shape, values in self._columns:
            value = datapoint[key]
            if type(value) is not kind:
                break
            if dtype is None:
                values.append(value)
            elif value.shape == shape and value.dtype == dtype:
                values.append(value.tobytes())
            else:
                break
        else:
            return True
        for column in self._columns:  # those before the one that does not fit
            if column.values is values:
                return False
            column.values.pop()
        return False

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
    shape, dtype = first.shape, first.dtype
    # Without loops of Python: this is done for each of a million small arrays a second.
    if not first.size or list(map(_SHAPE, values)).count(shape) < len(values):
        return None
    if list(map(_DTYPE, values)).count(dtype) < len(values):
        return None
    column = np.empty((len(values), *shape), dtype)
    np.concatenate(values, out=column.reshape(-1, *shape[1:]))
    return column
