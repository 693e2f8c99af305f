"""`ParquetSerializer`: a flow as a Parquet file, and back."""

from __future__ import annotations

import os
from itertools import islice
from typing import Any, Final, final

import numpy as np

from ... import _argument_checks as arguments
from ..._errors import ArgumentError, SendError, extra
from ...sources._as_dataflow import as_dataflow
from ...storage import URL, create_file, open_url
from .._progress import with_progress
from ._chunk_shuffle import ChunkShuffle
from ._parquet_data import ParquetData, opened_parquet

__all__ = ["ParquetSerializer", "parquet_version"]

_VERSION: Final = "1"
_WRITTEN: Final = "towerpack"


@final
class ParquetSerializer:
    """Writes a flow of dicts to a Parquet file, and reads it.

    Example:
        >>> import tempfile
        >>> path = tempfile.mkdtemp() + "/points.parquet"
        >>> ParquetSerializer.save([{"x": 0.5, "label": 1}, {"x": 1.5, "label": 2}], path)
        >>> list(ParquetSerializer.load(path))
        [{'x': 0.5, 'label': 1}, {'x': 1.5, 'label': 2}]
    """

    @staticmethod
    def save(df: Any, path: URL, group_rows: int = 4096) -> None:
        """Writes one pass of a flow, a row group at a time; the first has the types of the columns.

        Args:
            df: the flow, or what can stand in its place; datapoints are dicts of numbers, strings, bytes,
                None, and arrays of one axis.
            path: of the file. One that exists is replaced.
            group_rows: rows of a row group, which is what is read at a time.

        Raises:
            ArgumentError: the flow has no datapoints, so that there are no columns.
            ImportError: the extra `[parquet]` is missing.
            OSError: the file cannot be written.
            SendError: a datapoint is no dict, has other keys than the first, or a value that has no type in
                Parquet.
        """
        arguments.count("group_rows", group_rows)
        with extra("parquet", "writing Parquet files"):
            from pyarrow import parquet
        datapoints = iter(with_progress(as_dataflow(df), f"writing {os.path.basename(path)}"))
        first = list(islice(datapoints, group_rows))
        if not first:
            raise ArgumentError("a Parquet file needs a datapoint, for the columns; received none")
        with create_file(path) as file:
            table, begin = _table(first, None, 0), len(first)
            with parquet.ParquetWriter(file, table.schema) as writer:
                writer.write_table(table, group_rows)
                while rows := list(islice(datapoints, group_rows)):
                    writer.write_table(_table(rows, table.schema, begin), group_rows)
                    begin += len(rows)

    @staticmethod
    def load(path: URL, shuffle: bool | ChunkShuffle = False) -> ParquetData:
        """Returns `ParquetData(path, shuffle=shuffle)`."""
        return ParquetData(path, shuffle=shuffle)


def parquet_version(path: URL) -> int | None:
    """Returns the version of a file's format; `None` if `ParquetSerializer` has not written the file.

    Raises:
        FormatError: the file is no Parquet file, is cut off or damaged.
        ImportError: the extra `[parquet]` is missing.
        OSError: the file is missing, or may not be read.
    """
    with open_url(path) as stored:
        metadata = opened_parquet(stored).schema_arrow.metadata or {}
    version = metadata.get(_WRITTEN.encode())
    return int(version) if version is not None and version.isdigit() else None


def _table(rows: list[Any], schema: Any, begin: int) -> Any:
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
        described = {_WRITTEN: _VERSION}
        return pa.Table.from_pydict(columns).replace_schema_metadata(described)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise SendError(
            f"datapoints {begin} to {begin + len(rows) - 1}: Parquet cannot hold them: {error}"
        ) from error


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
