"""A flow of dicts as tables of Arrow's, a stretch of datapoints at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

import numpy as np

from ..._errors import ArgumentError, SendError
from ...sources._as_dataflow import as_dataflow
from ...storage import URL
from .._progress import with_progress

__all__ = ["tables_of", "version_in"]

_VERSION: Final = "1"
_WRITTEN: Final = "towerpack"


def tables_of(df: Any, rows: int, path: URL, kind: str) -> Iterator[Any]:
    """Yields one pass of a flow as tables with one schema, which says that a file of them is ours.

    Args:
        df: the flow, or what can stand in its place; datapoints are dicts.
        rows: of a table; the last one may have fewer.
        path: of the file to be written, for the bar that shows progress.
        kind: of the file, such as "Parquet", for messages.

    Raises:
        ArgumentError: the flow has no datapoints, so that there are no columns.
        SendError: a datapoint is no dict, has other keys than the first, or a value that has no type there.
    """
    datapoints = iter(with_progress(as_dataflow(df), f"writing {os.path.basename(path)}"))
    schema, begin = None, 0
    while stretch := list(islice(datapoints, rows)):
        table = _table(stretch, schema, begin, kind)
        schema, begin = table.schema, begin + len(stretch)
        yield table
    if not begin:
        raise ArgumentError(f"{kind} needs a datapoint, for the columns; received none")


def version_in(schema: Any) -> int | None:
    """Returns the version of a file's format, by its schema; `None` for a file of others."""
    version = (schema.metadata or {}).get(_WRITTEN.encode())
    return int(version) if version is not None and version.isdigit() else None


def _table(rows: list[Any], schema: Any, begin: int, kind: str) -> Any:
    import pyarrow as pa

    names = list(rows[0]) if schema is None and isinstance(rows[0], dict) else getattr(schema, "names", [])
    for number, row in enumerate(rows, begin):
        if not isinstance(row, dict) or set(row) != set(names):
            raise SendError(
                f"datapoint {number} is to be a dict with the keys {names}; received {row!r:.100}"
            )
    columns = {name: [_plain(row[name]) for row in rows] for name in names}
    try:
        if schema is not None:
            return pa.Table.from_pydict(columns, schema)
        return pa.Table.from_pydict(columns).replace_schema_metadata({_WRITTEN: _VERSION})
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise SendError(
            f"datapoints {begin} to {begin + len(rows) - 1}: {kind} cannot hold them: {error}"
        ) from error


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
