"""`ParquetData` and `ParquetSerializer`: the rows of Parquet files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, final

from ... import _argument_checks as arguments
from ..._errors import FormatError, extra
from ...storage import URL, StoredFile, create_file, open_url
from ._chunked_rows import ARROW_ERRORS, ROWS_AT_A_TIME, ChunkedFlow, ChunkedRows, ChunkShuffle, arrow_source
from ._tables_of_flow import refusing, tables_of, version_in

__all__ = ["ParquetData", "ParquetSerializer", "opened_parquet", "parquet_version"]


@final
class ParquetData(ChunkedFlow):
    """Yields the rows of a Parquet file; addressable. Reading a row reads its whole row group.

    A `BatchData` above it, with only `RepeatedData`, `FixedSizeData` and `ShardData` between, gathers batches
    of numbers column by column without making rows.

    A datapoint is a dict of the columns. For a file of `ParquetSerializer`, it has the written values with
    their types. For another file, the type of a column decides, and is the same in each row: numbers and
    booleans are NumPy scalars, times in nanoseconds `numpy.datetime64` (in UTC if the column has a time zone)
    and `numpy.timedelta64`, and a list of these is an array, a masked one if it contains a null. Strings,
    bytes, other times, structures and the rest are Python values. A null is None.

    Args:
        path: path of the file; from a remote file, only the selected columns are read.
        columns: names of the columns; all by default.
        shuffle: a `ChunkShuffle`, for an order that reads each row group once; or whether each epoch draws
            its order among all rows, which is slow unless the file fits into the row groups in memory.
        keep_groups: number of row groups in memory; by default the window, or one without a window. Single
            rows in the file's order keep none.

    Raises:
        ArgumentError: `keep_groups` is not positive.
        ComponentError: the file has no such column.
        FormatError: the file is not a Parquet file, is truncated or damaged, or has several columns of one
            name; or, while iterating, a row group has wrong checksums.
        ImportError: the extra `[parquet]` is missing.
        OSError: the file is missing or not readable.

    Example:
        >>> import tempfile
        >>> path = tempfile.mkdtemp() + "/points.parquet"
        >>> ParquetSerializer.save([{"x": 0.5, "label": 1}, {"x": 1.5, "label": 2}], path)
        >>> ParquetData(path, columns=["label"]).datapoint(0, 1)
        {'label': 2}
    """

    def __init__(
        self,
        path: URL,
        columns: Sequence[str] | None = None,
        shuffle: bool | ChunkShuffle = False,
        keep_groups: int | None = None,
    ) -> None:
        """Reads the index inside the file and closes it."""
        super().__init__(
            lambda keep: _ParquetRows(path, columns, keep), shuffle, ("keep_groups", keep_groups)
        )


@final
class _ParquetRows(ChunkedRows):
    """Rows of a Parquet file."""

    _kind = "row group"
    decoded = True

    def _described(self, stored: StoredFile) -> tuple[Any, list[int]]:
        file = opened_parquet(stored)
        groups = [file.metadata.row_group(number) for number in range(file.num_row_groups)]
        return file.schema_arrow, [group.num_rows for group in groups]

    def _opened_as(self, stored: StoredFile) -> Any:
        return opened_parquet(stored)

    def _batches(self, number: int, rows: int = ROWS_AT_A_TIME) -> Iterator[Any]:
        batches: Iterator[Any] = self._file()[1].iter_batches(rows, [number], self._columns)
        return batches


def opened_parquet(stored: StoredFile) -> Any:
    """Opens a Parquet file.

    Raises:
        FormatError: it has another format, or is truncated or damaged.
        ImportError: the extra `[parquet]` is missing.
    """
    with extra("parquet", f"reading {stored.name}"):
        from pyarrow import parquet
    try:
        file = parquet.ParquetFile(arrow_source(stored), page_checksum_verification=True)
        list(file.schema_arrow.names)  # the names may be damaged, too
    except ARROW_ERRORS as error:
        raise FormatError(
            f"{stored.name} is not a Parquet file, or is truncated or damaged: {error}"
        ) from error
    return file


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
