"""`ArrowData` and `ArrowSerializer`: the rows of Arrow IPC files (Feather version 2)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, final

import numpy as np

from ... import _argument_checks as arguments
from ..._errors import FormatError, extra
from ...storage import URL, StoredFile, create_file, is_local, open_url
from ._chunked_rows import ARROW_ERRORS, ROWS_AT_A_TIME, ChunkedFlow, ChunkedRows, ChunkShuffle, arrow_source
from ._tables_of_flow import refusing, tables_of, version_in

__all__ = ["ArrowData", "ArrowSerializer", "arrow_version", "opened_arrow"]

_OTHERS: Final = {
    b"FEA1": "is Feather version 1, without record batches; rewrite it with pyarrow.feather.write_feather",
    b"\xff\xff\xff\xff": "is an Arrow stream, without an index; rewrite it with pyarrow.ipc.new_file",
}


@final
class ArrowData(ChunkedFlow):
    """Yields the rows of an Arrow IPC file; addressable.

    Datapoints and batches are as in `ParquetData`. A local file is mapped, and if it is not compressed, only
    the bytes of a row are read: random access is fast without `ChunkShuffle`, and processes share the memory.
    From other files, a record batch is read as a whole. The number of rows of each batch is read when the
    flow is created.

    Args:
        path: path of the file; from a remote file, only the selected columns are read.
        columns: names of the columns; all by default.
        shuffle: whether each epoch draws its order among all rows; or a `ChunkShuffle`, for compressed or
            remote files.
        keep_batches: number of record batches kept open; by default the window, or one without a window.
            Single rows in the file's order keep none; those of a mapped file take no memory and are all kept.

    Raises:
        ArgumentError: `keep_batches` is not positive.
        ComponentError: the file has no such column.
        FormatError: the file is not an Arrow IPC file (Feather version 1 is not), or is truncated or damaged.
        ImportError: the extra `[parquet]` is missing.
        OSError: the file is missing or not readable.

    Example:
        >>> import tempfile
        >>> path = tempfile.mkdtemp() + "/points.arrow"
        >>> ArrowSerializer.save([{"x": 0.5, "label": 1}, {"x": 1.5, "label": 2}], path)
        >>> ArrowData(path, columns=["label"]).datapoint(0, 1)
        {'label': 2}
    """

    def __init__(
        self,
        path: URL,
        columns: Sequence[str] | None = None,
        shuffle: bool | ChunkShuffle = False,
        keep_batches: int | None = None,
    ) -> None:
        """Reads the index inside the file and closes it."""
        super().__init__(
            lambda keep: _ArrowRows(path, columns, keep), shuffle, ("keep_batches", keep_batches)
        )


@final
class _ArrowRows(ChunkedRows):
    """Rows of an Arrow IPC file."""

    _kind = "record batch"

    def __init__(self, path: URL, columns: Sequence[str] | None, keep: int) -> None:
        self._valid: set[int] = set()  # validated batches of the mapped file
        self._places: _Places | None = None
        super().__init__(path, columns, keep)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_valid": set(), "_places": None}

    def gather(self, rows: range | np.ndarray, out: Sequence[np.ndarray]) -> None:
        """Writes rows into arrays: each column of a mapped file by one call, for all record batches."""
        if isinstance(rows, range) or not is_local(self._file()[0].name):
            super().gather(rows, out)
            return
        stored = self._file()[0]
        stored.check()
        numbers = self._chunks_of(rows)
        places = self._places
        if places is None or places.stored is not stored:  # the first call, or that in a fork
            places = self._places = _Places(stored, [target.dtype for target in out], len(self.sizes))
        for number in places.unknown(numbers):
            places.add(number, self._chunk_arrays(number))
            if not places.suitable:
                break
        if places.suitable:
            places.gather(numbers, rows - (self._ends - self.sizes)[numbers], out)
            stored.check()
        else:
            super().gather(rows, out)

    def _described(self, stored: StoredFile) -> tuple[Any, list[int]]:
        reader = opened_arrow(stored)
        schema = reader.schema
        if schema.names:
            # The number of rows is known only after reading a batch, so read as little of it as possible.
            reader = opened_arrow(stored, [_narrowest(schema)])
        return schema, [self._batch(reader, number).num_rows for number in range(reader.num_record_batches)]

    def _opened_as(self, stored: StoredFile) -> Any:
        reader = opened_arrow(stored)
        names = reader.schema.names
        fields = sorted({names.index(name) for name in self._columns})
        # A reader of some fields copies them out of the mapped file.
        return reader if len(fields) == len(names) else opened_arrow(stored, fields)

    def _batches(self, number: int, rows: int = ROWS_AT_A_TIME) -> Iterator[Any]:
        batch = self._valid_batch(number)
        return (batch.slice(at, rows) for at in range(0, batch.num_rows, rows))

    def _as_arrays(self, number: int) -> list[np.ndarray]:
        columns = self._valid_batch(number).select(self._columns).columns
        return [convert(column) for convert, column in zip(self._column_arrays, columns)]

    def _kept_arrays(self, arrays: list[np.ndarray] | None) -> int:
        """Returns all if they are views of the mapped file, which take no memory."""
        stored = self._file()[0]
        if arrays is None or not is_local(stored.name):
            return self._keep
        mapped = np.frombuffer(stored.map(), np.uint8)
        views = all(np.may_share_memory(mapped, array) for array in arrays)
        return len(self.sizes) + 1 if views else self._keep

    def _loaded(self, number: int) -> tuple[Sequence[Any], ...]:
        columns = self._valid_batch(number).select(self._columns).columns
        return tuple(map(_Values, columns, self._converters))

    def _valid_batch(self, number: int) -> Any:
        batch = self._batch(self._file()[1], number)
        if number not in self._valid:
            with self._reading(number):
                # Only this call checks the offsets of a damaged file before they are used.
                batch.validate(full=True)
            self._valid.add(number)
        return batch

    def _batch(self, reader: Any, number: int) -> Any:
        with self._reading(number):
            return reader.get_batch(number)


@final
class _Places:
    """The places of all columns of all record batches in a mapped file.

    A column is a view of the file in its dtype, so that rows of any record batches are elements of one array.

    Attributes:
        stored: the file.
        suitable: whether all record batches so far are such elements: not converted, nor of several axes.
    """

    def __init__(self, stored: StoredFile, dtypes: Sequence[np.dtype], count: int) -> None:
        mapped = np.frombuffer(stored.map(), np.uint8)
        self.stored = stored
        self.suitable = True
        self._begin = mapped.__array_interface__["data"][0]
        self._size = mapped.size
        self._views = [mapped[: len(mapped) // each.itemsize * each.itemsize].view(each) for each in dtypes]
        self._begins = np.zeros((len(dtypes), count), np.int64)
        self._known = np.zeros(count, bool)

    def unknown(self, numbers: np.ndarray) -> list[int]:
        """Returns the record batches among `numbers` that are not added yet."""
        known: np.ndarray = self._known[numbers]
        return [] if known.all() or not self.suitable else np.unique(numbers[~known]).tolist()

    def add(self, number: int, columns: Sequence[np.ndarray]) -> None:
        """Stores the places of a record batch's columns."""
        for place, (column, view) in enumerate(zip(columns, self._views)):
            size = column.itemsize
            begin = column.__array_interface__["data"][0] - self._begin
            inside = 0 <= begin <= self._size - column.nbytes and begin % size == 0
            one_piece = column.ndim == 1 and column.flags.c_contiguous and column.dtype == view.dtype
            self.suitable &= inside and one_piece
            self._begins[place, number] = begin // size
        self._known[number] = True

    def gather(self, numbers: np.ndarray, rows: np.ndarray, out: Sequence[np.ndarray]) -> None:
        """Writes elements of record batches `numbers` into arrays, one for each column."""
        for view, begins, target in zip(self._views, self._begins, out):
            np.take(view, begins[numbers] + rows, out=target, mode="clip")  # "raise" would copy `out`


@final
class _Values(Sequence[Any]):
    """A column of a record batch; values are converted to Python on access."""

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
        fields: positions of the columns to read; all if empty.

    Raises:
        FormatError: it has another format, or is truncated or damaged.
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
        list(reader.schema.names)  # the names may be damaged, too
    except ARROW_ERRORS as error:
        raise FormatError(
            f"{stored.name} is not an Arrow IPC file, or is truncated or damaged: {error}"
        ) from error
    return reader


def _narrowest(schema: Any) -> int:
    """Returns the position of the column with the fewest bits per row."""

    def bits(place: int) -> float:
        try:
            return float(schema.field(place).type.bit_width)
        except ValueError:  # its values have varying sizes
            return float("inf")

    return min(range(len(schema.names)), key=bits)


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
