"""Many small datapoints as a few columns: one array to send in place of hundreds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

__all__ = ["ColumnTable", "from_table", "to_table"]

_FEWEST = 8  # below that, finding out costs as much as it saves
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
    first = datapoints[0]
    kind = type(first)
    if kind is dict:
        keys = tuple(first)
        if any(tuple(datapoint) != keys for datapoint in datapoints):
            return datapoints
        parts: list[list[Any]] = [[datapoint[key] for datapoint in datapoints] for key in keys]
    elif kind in {list, tuple} and len(set(map(len, datapoints))) == 1:
        keys = ()
        parts = [list(part) for part in zip(*datapoints)]
    else:
        return datapoints
    columns = [_column(part) for part in parts]
    if not columns or any(column is None for column in columns):
        return datapoints
    return ColumnTable(kind, keys, tuple(columns))


def from_table(value: Any) -> Any:
    """Undoes `to_table`."""
    return value.rows() if type(value) is ColumnTable else value


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
    if any(value.shape != shape or value.dtype != dtype for value in values):
        return None
    if not first.size:
        return None
    column = np.empty((len(values), *shape), dtype)
    np.concatenate(values, out=column.reshape(-1, *shape[1:]))
    return column
