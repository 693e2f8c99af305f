"""`ParquetData`: the rows of a Parquet file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, final

from ..._errors import FormatError, extra
from ...storage import URL, StoredFile
from ._chunked_rows import ARROW_ERRORS, ROWS_AT_A_TIME, ChunkedFlow, ChunkedRows, ChunkShuffle, arrow_source

__all__ = ["ParquetData", "opened_parquet"]


@final
class ParquetData(ChunkedFlow):
    """Yields the rows of a Parquet file; addressable. Reading a row reads its whole row group.

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
        keep_groups: number of row groups in memory; by default the window, or one without a window. In the
            file's order, none is kept.

    Raises:
        ArgumentError: `keep_groups` is not positive.
        ComponentError: the file has no such column.
        FormatError: the file is not a Parquet file, is truncated or damaged, or has several columns of one
            name; or, while iterating, a row group has wrong checksums.
        ImportError: the extra `[parquet]` is missing.
        OSError: the file is missing or not readable.
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

    def _described(self, stored: StoredFile) -> tuple[Any, list[int]]:
        file = opened_parquet(stored)
        groups = [file.metadata.row_group(number) for number in range(file.num_row_groups)]
        return file.schema_arrow, [group.num_rows for group in groups]

    def _opened_as(self, stored: StoredFile) -> Any:
        return opened_parquet(stored)

    def _batches(self, number: int) -> Iterator[Any]:
        batches: Iterator[Any] = self._file()[1].iter_batches(ROWS_AT_A_TIME, [number], self._columns)
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
