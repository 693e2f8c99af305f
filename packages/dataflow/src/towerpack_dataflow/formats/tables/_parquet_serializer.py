"""`ParquetSerializer`: a flow as a Parquet file, and back."""

from __future__ import annotations

from typing import Any, final

from ... import _argument_checks as arguments
from ..._errors import extra
from ...storage import URL, create_file, open_url
from ._chunk_shuffle import ChunkShuffle
from ._parquet_data import ParquetData, opened_parquet
from ._tables_of_flow import refusing, tables_of, version_in

__all__ = ["ParquetSerializer", "parquet_version"]


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
        """Writes one pass of a flow, a row group at a time.

        A column has values of one type, and None. `load` gives back values and types: numbers of Python or of
        NumPy of any dtype up to 64 bits, booleans, times, strings, bytes, arrays of one axis, and lists and
        dicts of Python's values. Pages have checksums.

        Args:
            df: the flow, a list or another iterable; datapoints are dicts. The columns are in the order
                of the first.
            path: of the file. One that exists is replaced.
            group_rows: rows of a row group, which are read at a time.

        Raises:
            ArgumentError: the flow has no datapoints, so that there are no columns.
            ImportError: the extra `[parquet]` is missing.
            OSError: the file cannot be written.
            SendError: a datapoint is no dict, has other keys than the first, a value of another type than
                those before it, or one that would not be read as it is: a tuple, a masked array, an integer
                of more than 64 bits. A file that is there stays as it was.
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
    """Returns the version of a file's format; `None` if `ParquetSerializer` has not written the file.

    Raises:
        FormatError: the file is no Parquet file, is cut off or damaged.
        ImportError: the extra `[parquet]` is missing.
        OSError: the file is missing, or may not be read.
    """
    with open_url(path) as stored:
        return version_in(opened_parquet(stored).schema_arrow)
