"""`ArrowSerializer`: writes and reads flows as Arrow IPC files."""

from __future__ import annotations

from typing import Any, final

from ... import _argument_checks as arguments
from ..._errors import extra
from ...storage import URL, create_file, open_url
from ._arrow_data import ArrowData, opened_arrow
from ._chunked_rows import ChunkShuffle
from ._tables_of_flow import refusing, tables_of, version_in

__all__ = ["ArrowSerializer", "arrow_version"]


@final
class ArrowSerializer:
    """Writes a flow of dicts to an Arrow IPC file (Feather version 2) and reads it.

    Example:
        >>> import tempfile
        >>> path = tempfile.mkdtemp() + "/points.arrow"
        >>> ArrowSerializer.save([{"x": 0.5, "label": 1}, {"x": 1.5, "label": 2}], path)
        >>> ArrowSerializer.load(path).datapoint(0, 1)
        {'x': 1.5, 'label': 2}
    """

    @staticmethod
    def save(df: Any, path: URL, batch_rows: int = 4096) -> None:
        """Writes one pass of a flow, a record batch at a time.

        `load` restores values and types, as for `ParquetSerializer.save`. The format has no checksums.

        Args:
            df: as for `ParquetSerializer.save`.
            path: path of the file. An existing file is replaced.
            batch_rows: number of rows in a record batch, the unit of reading.

        Raises:
            ArgumentError: the flow has no datapoints, so the columns are unknown.
            ImportError: the extra `[parquet]` is missing.
            OSError: the file cannot be written.
            SendError: a datapoint is not a dict, has other keys than the first, a value of another type than
                those before it, or one that cannot be restored exactly. An existing file is unchanged.
        """
        arguments.count("batch_rows", batch_rows)
        with extra("parquet", "writing Arrow files"):
            from pyarrow import ipc
        tables = tables_of(df, batch_rows, path, "Arrow")
        first = next(tables)
        with create_file(path) as file, refusing("Arrow"), ipc.new_file(file, first.schema) as writer:
            writer.write_table(first, batch_rows)
            for table in tables:
                writer.write_table(table, batch_rows)

    @staticmethod
    def load(path: URL, shuffle: bool | ChunkShuffle = False) -> ArrowData:
        """Returns `ArrowData(path, shuffle=shuffle)`."""
        return ArrowData(path, shuffle=shuffle)


def arrow_version(path: URL) -> int | None:
    """Returns the version of a file's format; `None` for a file of another program.

    Raises:
        FormatError: the file is not an Arrow IPC file, is truncated or damaged.
        ImportError: the extra `[parquet]` is missing.
        OSError: the file is missing or not readable.
    """
    with open_url(path) as stored:
        return version_in(opened_arrow(stored).schema)
