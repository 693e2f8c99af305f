"""Conversion of many small datapoints to a few columns: one array to send in place of hundreds."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from itertools import chain
from operator import attrgetter, countOf, itemgetter
from typing import Any, NamedTuple

import numpy as np

__all__ = [
    "FEWEST",
    "LARGEST",
    "PLAIN",
    "ColumnTable",
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
