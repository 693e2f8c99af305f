"""Collections of datapoints to send or hand over, unchanged since the flow yielded them."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from operator import attrgetter, countOf, is_, itemgetter
from sys import getrefcount
from typing import Any, NamedTuple, final

import numpy as np

from ...storage import snapshot

__all__ = [
    "FEWEST",
    "LARGEST",
    "PLAIN",
    "Collected",
    "ColumnTable",
    "DatapointList",
    "QuickList",
    "SteadyList",
    "column",
    "components",
    "from_table",
    "table_of",
    "to_table",
]

FEWEST = 8  # datapoints; below that, the check costs as much as it saves
LARGEST = 2**12  # bytes of an array; copying a larger one twice costs more than it saves
_BLOCK = 2**14  # bytes that one kept row may keep alive
PLAIN = frozenset({int, float, bool, str, bytes, type(None)})
_SHAPE, _DTYPE = attrgetter("shape"), attrgetter("dtype")


class ColumnTable(NamedTuple):
    """Datapoints of one structure, by component.

    Attributes:
        kind: dict, list or tuple.
        keys: keys of dicts.
        columns: one entry per component: an array with a value in each row, or the list of values.
    """

    kind: type
    keys: tuple[Any, ...]
    columns: tuple[Any, ...]

    def rows(self, *, apart: bool = False) -> list[Any]:
        """Returns the datapoints. Arrays in them are views of the columns.

        Args:
            apart: whether they are views of copies of a few rows each, for a consumer that keeps some of
                them.
        """
        columns = map(_in_blocks, self.columns) if apart else self.columns
        rows: Iterable[tuple[Any, ...]] = zip(*columns)
        if self.kind is tuple:
            return list(rows)
        if self.kind is list:
            return list(map(list, rows))
        keys = self.keys
        return [dict(zip(keys, row)) for row in rows]


def to_table(datapoints: list[Any]) -> Any:
    """Returns `datapoints` as a `ColumnTable` if they are uniform and simple enough, else unchanged."""
    if len(datapoints) < FEWEST or len(set(map(type, datapoints))) > 1:
        return datapoints
    parts = components(datapoints)
    return (table_of(datapoints[0], parts) if parts else None) or datapoints


def components(datapoints: list[Any]) -> list[list[Any]] | None:
    """Returns the values of each component of datapoints of one type; `None` if their structures differ."""
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


def table_of(first: Any, parts: list[list[Any]]) -> ColumnTable | None:
    """Makes a table of the values of all components, if possible; `first` is one of the datapoints."""
    columns = [column(part) for part in parts]
    if any(found is None for found in columns):
        return None
    return ColumnTable(type(first), tuple(first) if type(first) is dict else (), tuple(columns))


def from_table(value: Any, *, apart: bool = False) -> Any:
    """Undoes `to_table`; see `ColumnTable.rows`."""
    return value.rows(apart=apart) if type(value) is ColumnTable else value


def _in_blocks(column: Any) -> Iterable[Any]:
    """Returns the rows of a column; those of an array in copies of some kilobytes."""
    if type(column) is not np.ndarray or column.ndim < 2:
        return column  # type: ignore[no-any-return]
    length = max(_BLOCK // max(column[0].nbytes, 1), 1)
    return chain.from_iterable(
        _copied(column[begin : begin + length]) for begin in range(0, len(column), length)
    )


def _copied(rows: np.ndarray) -> np.ndarray:
    copied = rows.copy()
    copied.flags.writeable = rows.flags.writeable
    return copied


def column(values: list[Any]) -> Any:
    """Combines the values of one component; `None` if they do not match."""
    kinds = set(map(type, values))
    if kinds <= PLAIN:
        return values
    if len(kinds) > 1:
        return None
    first = values[0]
    if isinstance(first, np.generic):
        return np.array(values, first.dtype) if first.dtype.kind in "biufc" else None
    if kinds != {np.ndarray} or not first.ndim or first.dtype.hasobject:
        return None
    shape, dtype, count = first.shape, first.dtype, len(values)
    # Without Python loops: it runs for a million small arrays per second.
    if not first.size or countOf(map(_SHAPE, values), shape) < count:
        return None
    if countOf(map(_DTYPE, values), dtype) < count:
        return None
    if first.nbytes <= LARGEST:
        # Fails for arrays that are not contiguous, or have a dtype unsupported by buffers.
        with contextlib.suppress(TypeError, ValueError, BufferError):
            return np.frombuffer(bytearray().join(values), dtype).reshape(count, *shape)
    joined = np.empty((count, *shape), dtype)
    np.concatenate(values, out=joined.reshape(-1, *shape[1:]))
    return joined


_SAMPLE = 8  # arrays to examine, from each end of a range
_BASE, _HAS_OBJECTS = attrgetter("base"), attrgetter("dtype.hasobject")


class Collected(ABC):
    """Collects the datapoints of a range; abstract."""

    @abstractmethod
    def __len__(self) -> int:
        """Returns the number of datapoints."""

    @abstractmethod
    def extend(self, datapoints: Iterator[Any]) -> None:
        """Appends datapoints. Those before one that raises an error are kept."""

    @abstractmethod
    def take(self) -> Any:
        """Returns the datapoints, as a list or a `ColumnTable`; `None` if they must be made again."""


@final
class SteadyList(Collected):
    """Collects datapoints of a flow that never writes to datapoints it has yielded."""

    def __init__(self) -> None:
        """Starts empty."""
        self._datapoints: list[Any] = []

    def __len__(self) -> int:
        """Returns the number of datapoints."""
        return len(self._datapoints)

    def extend(self, datapoints: Iterator[Any]) -> None:
        """Appends datapoints."""
        self._datapoints.extend(datapoints)

    def take(self) -> list[Any]:
        """Returns the datapoints."""
        return self._datapoints


@final
class QuickList(Collected):
    """Collects datapoints without copies, and checks afterwards that none has changed.

    Args:
        stays: whether the datapoints stay in this process; else they are pickled at once.
    """

    def __init__(self, stays: bool = False) -> None:
        """Starts empty."""
        self._stays = stays
        self._datapoints: list[Any] = []
        self._first: list[bytes] = []

    def __len__(self) -> int:
        """Returns the number of datapoints."""
        return len(self._datapoints)

    def extend(self, datapoints: Iterator[Any]) -> None:
        """Appends datapoints."""
        if not self._datapoints:
            for datapoint in islice(datapoints, 1):
                self._datapoints.append(datapoint)
                self._first = _contents(datapoint)
        self._datapoints.extend(datapoints)

    def take(self) -> Any:
        """Returns the datapoints; `None` if the memory of one may have been overwritten by a later one.

        Memory without other references is safe. For rows of a larger array, it is enough to examine a few,
        and to check that the first is unchanged: code that reuses memory does so sooner or later for each
        datapoint.
        """
        datapoints = self._datapoints
        kinds = set(map(type, datapoints))
        if len(datapoints) <= 1 or kinds <= PLAIN:
            return self._as_they_are()
        alone = _alone(datapoints, _ALONE - 1)
        if len(kinds) > 1 or not (alone or _distinct(datapoints)):
            return None
        parts = components(datapoints)
        if not parts or not all(map(_separate, parts)) or _contents(datapoints[0]) != self._first:
            return None
        if self._stays and alone and all(map(_fresh, parts)):
            return self._as_they_are()
        table = table_of(datapoints[0], parts) if len(datapoints) >= FEWEST else None
        if table is not None:  # the table is a copy
            return table
        if any(map(_has_objects, parts)):  # objects may have changed
            return None
        del parts  # its references would make arrays look shared
        return list(map(snapshot, datapoints)) if self._stays else datapoints

    def _as_they_are(self) -> list[Any]:
        if self._stays:  # then the last one is not sent before the flow continues
            self._datapoints[-1:] = map(snapshot, self._datapoints[-1:])
        return self._datapoints


def _fresh(values: list[Any]) -> bool:
    """Tells whether values found separate by `_separate` have no other references."""
    if type(values[0]) is not np.ndarray:
        return True
    return values[0].base is None and not _has_objects(
        values
    )  # then no value is a view, and all are unshared


def _has_objects(values: list[Any]) -> bool:
    return type(values[0]) is np.ndarray and any(map(_HAS_OBJECTS, values))


def _contents(datapoint: Any) -> list[bytes]:
    """Returns the bytes of the arrays in a datapoint, except large ones."""
    values = datapoint.values() if type(datapoint) is dict else datapoint
    return [
        value.tobytes()
        for value in (values if type(datapoint) in {dict, list, tuple} else ())
        if type(value) is np.ndarray and value.nbytes <= LARGEST
    ]


def _separate(values: list[Any]) -> bool:
    """Tells whether no two values of a component share memory, as far as a quick check can tell."""
    kinds = set(map(type, values))
    if kinds <= PLAIN or all(issubclass(kind, np.number | np.bool_) for kind in kinds):
        return True
    if kinds != {np.ndarray} or values[0].nbytes > LARGEST:  # a snapshot is cheap compared to making it
        return False
    bases = set(map(type, map(_BASE, values)))
    if bases == {type(None)}:
        return _alone(values, _ALONE)
    few = values if len(values) <= 2 * _SAMPLE else values[:_SAMPLE] + values[-_SAMPLE:]
    starts = {array.__array_interface__["data"][0] for array in few}
    return type(None) not in bases and len(starts) == len(few)


def _alone(values: list[Any], references: int) -> bool:
    """Tells whether all values have that few references; the last is sent now, and may have more."""
    return max(map(getrefcount, islice(values, len(values) - 1))) <= references


def _distinct(values: list[Any]) -> bool:
    return len(set(map(id, values))) == len(values)


def _references(datapoint: list[np.ndarray]) -> int:
    arrays = [part for (part,) in [datapoint]]
    return max(map(getrefcount, arrays))


_ALONE = _references([np.empty(1)])  # the datapoint, the list and the call; depends on the release of Python


class _Column(NamedTuple):
    """The collected values of one component: arrays as their bytes."""

    kind: Any
    dtype: np.dtype | None
    shape: tuple[int, ...]
    values: list[Any]

    @classmethod
    def like(cls, value: Any) -> _Column | None:
        """Starts a column of values like this one; `None` if they are unsuitable for columns."""
        kind = type(value)
        if kind is np.ndarray:
            small = 0 < value.nbytes <= LARGEST and value.ndim and not value.dtype.hasobject
            return cls(kind, value.dtype, value.shape, []) if small else None
        number = isinstance(value, np.generic) and value.dtype.kind in "biufc"
        return cls(kind, None, (), []) if number or kind in PLAIN else None

    def joined(self) -> Any:
        if self.dtype is None:
            return column(self.values)
        return np.frombuffer(bytearray().join(self.values), self.dtype).reshape(-1, *self.shape)


def _same_parts(one: Any, other: Any) -> bool:
    if type(one) is dict:
        one, other = one.values(), other.values()
    return all(map(is_, one, other))


@final
class DatapointList(Collected):
    """Collects snapshots of datapoints: their flow may change them later.

    Small uniform datapoints are split into columns at once, which makes a snapshot and half of the message.
    For datapoints that stay in the process, columns pay only if arrays must be copied anyway; the first
    datapoint of a range decides.

    Args:
        count: expected number of datapoints.
        stays: whether the datapoints stay in this process; else the last expected one is sent before the flow
            continues, and needs no snapshot.
    """

    def __init__(self, count: int, stays: bool = False) -> None:
        """Starts empty."""
        self._tries = count >= FEWEST
        self._stays = stays
        self._last = -1 if stays else count - 1
        self._kind: Any = list
        self._keys: tuple[Any, ...] = ()
        self._columns: list[_Column] = []
        self._datapoints: list[Any] = []

    def __len__(self) -> int:
        """Returns the number of datapoints."""
        return len(self._columns[0].values if self._columns else self._datapoints)

    def extend(self, datapoints: Iterator[Any]) -> None:
        """Appends datapoints."""
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
            made, last = self._datapoints, self._last
            for datapoint in datapoints:
                fixed = type(datapoint) in PLAIN or len(made) == last
                made.append(datapoint if fixed else snapshot(datapoint))

    def take(self) -> Any:
        """Returns the datapoints, as a list or a `ColumnTable`."""
        if not self._columns:
            return self._datapoints
        joined = tuple([part.joined() for part in self._columns])
        if any(found is None for found in joined):
            return self._rows()
        return ColumnTable(self._kind, self._keys, joined)

    def _begun(self, datapoint: Any) -> list[_Column]:
        """Returns empty columns for datapoints like this one; an empty list if it is unsuitable."""
        kind = self._kind = type(datapoint)
        if kind not in {list, tuple, dict} or (self._stays and _same_parts(datapoint, snapshot(datapoint))):
            return []
        self._keys = tuple(datapoint) if kind is dict else ()
        columns = list(map(_Column.like, datapoint.values() if kind is dict else datapoint))
        return [found for found in columns if found is not None] if None not in columns else []

    def _fill(self, datapoints: Iterator[Any]) -> list[Any]:
        """Appends the components of datapoints to the columns; returns the first datapoint that does not fit.

        Unrolled, because it runs a million times per second.
        """
        columns, expected, keys = self._columns, self._kind, list(self._keys)
        width, ndarray = len(columns), np.ndarray
        places = list(zip(keys or range(width), columns))
        arrays = [
            (place, part.dtype, part.shape, part.values.append)
            for place, part in places
            if part.dtype is not None
        ]
        others = [(place, part.kind, part.values.append) for place, part in places if part.dtype is None]
        for datapoint in datapoints:
            if type(datapoint) is not expected:
                return [datapoint]
            if ([*datapoint] != keys) if keys else (len(datapoint) != width):
                return [datapoint]
            for place, dtype, shape, append in arrays:
                value = datapoint[place]
                if (
                    type(value) is not ndarray
                    or value.shape != shape
                    or not (value.dtype is dtype or value.dtype == dtype)
                ):
                    break
                append(value.tobytes())
            else:
                for place, kind, append in others:
                    value = datapoint[place]
                    if type(value) is not kind:
                        break
                    append(value)
                else:
                    continue
            return [datapoint]
        return []

    def _rows(self) -> list[Any]:
        """Returns the contents of the columns as datapoints.

        The last one may be incomplete, if it turned out not to fit after a part of it was added: rows end
        with the shortest column.
        """
        parts = [part.values if part.dtype is None else list(part.joined()) for part in self._columns]
        return ColumnTable(self._kind, self._keys, tuple(parts)).rows()
