"""`ArrowData`: the rows of an Arrow IPC file, which is Feather version 2."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, final

from ..._errors import FormatError, extra
from ...storage import URL, StoredFile
from ._chunk_shuffle import ChunkShuffle
from ._chunked_rows import (
    ARROW_ERRORS,
    ROWS_AT_A_TIME,
    ChunkedFlow,
    ChunkedRows,
    arrow_source,
)

__all__ = ["ArrowData", "opened_arrow"]

_OTHERS: Final = {
    b"FEA1": "is Feather version 1, without record batches; write it anew by pyarrow.feather.write_feather",
    b"\xff\xff\xff\xff": "is a stream of Arrow's, without an index; write it anew by pyarrow.ipc.new_file",
}


@final
class ArrowData(ChunkedFlow):
    """Yields the rows of an Arrow IPC file; addressable.

    A datapoint is as in `ParquetData`. A file on this machine is mapped, and if it is not compressed, only
    the bytes of a row are read: rows come in any order without `ChunkShuffle`, and processes share the
    memory. Of other files, a record batch is read as a whole. The number of rows of each is read when the
    flow is made.

    Args:
        path: of the file; of a file elsewhere, the columns that are wanted are read.
        columns: which columns; all if not given.
        shuffle: whether each epoch draws its order among all rows; or a `ChunkShuffle`, for files
            that are compressed, or elsewhere.
        keep_batches: how many record batches stay open; as many as the window if not given, else one. In the
            file's order, none does.

    Raises:
        ArgumentError: `keep_batches` is not positive.
        ComponentError: the file has no such column.
        FormatError: the file is no Arrow IPC file, such as one of Feather version 1, is cut off or damaged.
        ImportError: the extra `[parquet]` is missing.
        OSError: the file is missing, or may not be read.
    """

    _holds = ()
    _steady = True

    def __init__(
        self,
        path: URL,
        columns: Sequence[str] | None = None,
        shuffle: bool | ChunkShuffle = False,
        keep_batches: int | None = None,
    ) -> None:
        """Reads the file's own index, and closes it again."""
        super().__init__(
            lambda keep: _ArrowRows(path, columns, keep), shuffle, ("keep_batches", keep_batches)
        )


@final
class _ArrowRows(ChunkedRows):
    """Rows of an Arrow IPC file."""

    _kind = "record batch"

    def __init__(self, path: URL, columns: Sequence[str] | None, keep: int) -> None:
        self._valid: set[int] = set()  # batches of the mapped file, whose values cannot lead astray
        super().__init__(path, columns, keep)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_valid": set()}

    def _described(self, stored: StoredFile) -> tuple[Any, list[int]]:
        reader = opened_arrow(stored)
        schema = reader.schema
        if schema.names:
            # A batch tells its rows when it is read, so as little of it is read as can be.
            reader = opened_arrow(stored, [_narrowest(schema)])
        return schema, [self._batch(reader, number).num_rows for number in range(reader.num_record_batches)]

    def _opened_as(self, stored: StoredFile) -> Any:
        names = opened_arrow(stored).schema.names
        return opened_arrow(stored, sorted({names.index(name) for name in self._columns}))

    def _batches(self, number: int) -> Iterator[Any]:
        batch = self._valid_batch(number)
        return (batch.slice(at, ROWS_AT_A_TIME) for at in range(0, batch.num_rows, ROWS_AT_A_TIME))

    def _loaded(self, number: int) -> tuple[Sequence[Any], ...]:
        columns = self._valid_batch(number).select(self._columns).columns
        return tuple(map(_Values, columns, self._converters))

    def _valid_batch(self, number: int) -> Any:
        batch = self._batch(self._file()[1], number)
        if number not in self._valid:
            with self._reading(number):
                # Nothing but this looks at offsets in a damaged file before they are followed.
                batch.validate(full=True)
            self._valid.add(number)
        return batch

    def _batch(self, reader: Any, number: int) -> Any:
        with self._reading(number):
            return reader.get_batch(number)


@final
class _Values(Sequence[Any]):
    """A column of a record batch; a value becomes Python's when it is read."""

    def __init__(self, column: Any, convert: Callable[[Any], list[Any]]) -> None:
        self._column, self._convert = column, convert

    def __len__(self) -> int:
        return len(self._column)

    def __getitem__(self, place: Any) -> Any:
        return self._convert(self._column.slice(place, 1))[0]


def opened_arrow(stored: StoredFile, fields: Sequence[int] = ()) -> Any:
    """Opens an Arrow IPC file.

    Args:
        stored: the file.
        fields: the places of the columns to read; all if it is empty.

    Raises:
        FormatError: it has another format, is cut off or damaged.
        ImportError: the extra `[parquet]` is missing.
    """
    with extra("parquet", f"reading {stored.name}"):
        from pyarrow import ipc
    begin = bytes(stored.read(0, min(stored.size, 4)))
    if begin in _OTHERS:
        raise FormatError(f"{stored.name} {_OTHERS[begin]}")
    try:
        options = ipc.IpcReadOptions(included_fields=list(fields) or None)
        reader = ipc.open_file(arrow_source(stored), options=options)
        list(reader.schema.names)  # which may be damaged, too
    except ARROW_ERRORS as error:
        raise FormatError(f"{stored.name} is no Arrow IPC file, or is cut off or damaged: {error}") from error
    return reader


def _narrowest(schema: Any) -> int:
    """Returns the place of the column with the fewest bits in a row."""

    def bits(place: int) -> float:
        try:
            return float(schema.field(place).type.bit_width)
        except ValueError:  # its values are of several sizes
            return float("inf")

    return min(range(len(schema.names)), key=bits)
