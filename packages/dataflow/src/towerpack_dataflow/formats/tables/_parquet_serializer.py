"""`ParquetSerializer`: writes and reads flows as Parquet files."""

from __future__ import annotations

from typing import Any, final

from ... import _argument_checks as arguments
from ..._errors import extra
from ...storage import URL, create_file, open_url
from ._chunked_rows import ChunkShuffle
from ._parquet_data import ParquetData, opened_parquet
from ._tables_of_flow import refusing, tables_of, version_in

__all__ = ["ParquetSerializer", "parquet_version"]


@final
class ParquetSerializer:
    """Writes a flow of dicts to a Parquet file and reads it.

    Example:
        >>> import tempfile
        >>> path = tempfile.mkdtemp() + "/points.parquet"
        >>> ParquetSerializer.save([{"x": 0.5, "label": 1}, {"x": 1.5, "label": 2}], path)
        >>> list(ParquetSerializer.load(path))
        [{'x': 0.5, 'label': 1}, {'x': 1.5, 'label': 2}]
    """

    @staticmethod
    def save(df: Any, path: URL, group_rows: int = 4096) -> None:
        """Writes one pass of a flow, a row group at a time.

        A column has values of one type, and None. `load` restores values and types: Python numbers, NumPy
        numbers of any dtype up to 64 bits, booleans, times, strings, bytes, arrays of one axis, and lists and
        dicts of Python values. Pages have checksums.

        Args:
            df: the flow, a list or another iterable; datapoints are dicts. The columns are in the order of
                the first.
            path: path of the file. An existing file is replaced.
            group_rows: number of rows in a row group, the unit of reading.

        Raises:
            ArgumentError: the flow has no datapoints, so the columns are unknown.
            ImportError: the extra `[parquet]` is missing.
            OSError: the file cannot be written.
            SendError: a datapoint is not a dict, has other keys than the first, a value of another type than
                those before it, or one that cannot be restored exactly: a tuple, a masked array, an integer
                of more than 64 bits. An existing file is unchanged.
        """
        arguments.count("group_rows", group_rows)
        with extra("parquet", "writing Parquet files"):
            from pyarrow import parquet
        tables = tables_of(df, group_rows, path, "Parquet")
        first = next(tables)
        with (
            create_file(path) as file,
            refusing("Parquet"),
            parquet.ParquetWriter(file, first.schema, write_page_checksum=True) as writer,
        ):
            writer.write_table(first, group_rows)
            for table in tables:
                writer.write_table(table, group_rows)

    @staticmethod
    def load(path: URL, shuffle: bool | ChunkShuffle = False) -> ParquetData:
        """Returns `ParquetData(path, shuffle=shuffle)`."""
        return ParquetData(path, shuffle=shuffle)


def parquet_version(path: URL) -> int | None:
    """Returns the version of a file's format; `None` for a file of another program.

    Raises:
        FormatError: the file is not a Parquet file, is truncated or damaged.
        ImportError: the extra `[parquet]` is missing.
        OSError: the file is missing or not readable.
    """
    with open_url(path) as stored:
        return version_in(opened_parquet(stored).schema_arrow)
