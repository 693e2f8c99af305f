"""`ChunkedFlow`: the rows of a table file that is read in chunks, such as row groups."""

from __future__ import annotations

from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar, Final, TypeVar, final

import numpy as np
import numpy.typing as npt

from ... import _argument_checks as arguments
from ..._errors import ComponentError, DataFlowError, FormatError
from ...flow._columns import Columns, NoColumnsError
from ...flow._epoch import Epoch
from ...flow._user_code import origin_of_errors
from ...storage import URL, StoredFile, StoredStream, is_local, open_url
from .._record_flow import OpenedRecords, RecordFlow, open_same
from ._arrow_values import ColumnArray, converter, written_kind

__all__ = [
    "ARROW_ERRORS",
    "ROWS_AT_A_TIME",
    "ChunkOrder",
    "ChunkShuffle",
    "ChunkedFlow",
    "ChunkedRows",
    "arrow_source",
    "row_maker",
]


@final
@dataclass(frozen=True)
class ChunkShuffle:
    """Requests an order with few chunks of a file in use at a time, such as row groups of Parquet.

    The chunks come in a random order, and the rows of `window` consecutive chunks are mixed. A larger window
    makes the order more like that of a full shuffle, and takes more memory.

    Args:
        window: number of chunks.

    Raises:
        ArgumentError: `window` is not positive.

    Example:
        >>> import tempfile
        >>> from towerpack_dataflow import ParquetData, ParquetSerializer
        >>> path = tempfile.mkdtemp() + "/numbers.parquet"
        >>> ParquetSerializer.save([{"x": number} for number in range(9)], path)
        >>> sorted(row["x"] for row in ParquetData(path, shuffle=ChunkShuffle(window=4)))
        [0, 1, 2, 3, 4, 5, 6, 7, 8]
    """

    window: int = 8

    def __post_init__(self) -> None:
        """Checks the window."""
        arguments.count("window", self.window)


@final
class ChunkOrder:
    """The order of one epoch: maps positions to rows, computed one window at a time.

    Args:
        sizes: number of rows of each chunk.
        window: number of chunks to mix.
        rng: source of the order; the same generator state gives the same order.

    Example:
        >>> order = ChunkOrder(np.array([2, 2, 2]), 1, np.random.default_rng(0))
        >>> sorted(order.index_range(0, 6)), {row // 2 for row in order.index_range(2, 4)} in ({0}, {1}, {2})
        ([0, 1, 2, 3, 4, 5], True)
    """

    def __init__(self, sizes: npt.NDArray[np.int64], window: int, rng: np.random.Generator) -> None:
        """Draws the order of chunks."""
        self._begins = np.concatenate([[0], np.cumsum(sizes)])
        self._chunks = rng.permutation(len(sizes))
        self._window = window
        self._seed = int(rng.integers(2**63))
        ends = np.cumsum(sizes[self._chunks])
        self._ends = np.append(ends[window - 1 : -1 : window], self._begins[-1])  # ends of windows
        self._rows: tuple[int, list[int]] = (-1, [])

    def index_range(self, start: int, stop: int) -> list[int]:
        """Returns the rows at positions `start` to `stop - 1`."""
        return [self.at(position) for position in range(start, stop)]

    def indices(self, wanted: range) -> npt.NDArray[np.int64]:
        """Returns the rows at some positions as an array."""
        return np.array([self.at(position) for position in wanted], np.int64)

    def at(self, position: int) -> int:
        """Returns the row at one position; cheap if successive positions are close."""
        number = int(np.searchsorted(self._ends, position, "right"))
        if self._rows[0] != number:
            self._rows = number, self._mixed(number)
        return self._rows[1][position - (int(self._ends[number - 1]) if number else 0)]

    def _mixed(self, number: int) -> list[int]:
        chunks = self._chunks[number * self._window : (number + 1) * self._window]
        rows = np.concatenate([np.arange(self._begins[chunk], self._begins[chunk + 1]) for chunk in chunks])
        np.random.default_rng([self._seed, number]).shuffle(rows)
        mixed: list[int] = rows.tolist()
        return mixed


# A dict display takes a third of the time of `dict(zip(...))`, and needs a known number of columns. For
# tables with more columns, the cost of their values hides the difference.
_MAKERS: Final[Mapping[int, Callable[..., Callable[..., dict[str, Any]]]]] = {
    1: lambda a: lambda p: {a: p},
    2: lambda a, b: lambda p, q: {a: p, b: q},
    3: lambda a, b, c: lambda p, q, r: {a: p, b: q, c: r},
    4: lambda a, b, c, d: lambda p, q, r, s: {a: p, b: q, c: r, d: s},
    5: lambda a, b, c, d, e: lambda p, q, r, s, t: {a: p, b: q, c: r, d: s, e: t},
    6: lambda a, b, c, d, e, f: lambda p, q, r, s, t, u: {a: p, b: q, c: r, d: s, e: t, f: u},
    7: lambda a, b, c, d, e, f, g: lambda p, q, r, s, t, u, v: {a: p, b: q, c: r, d: s, e: t, f: u, g: v},
    8: lambda a, b, c, d, e, f, g, h: (
        lambda p, q, r, s, t, u, v, w: {a: p, b: q, c: r, d: s, e: t, f: u, g: v, h: w}
    ),
}


def row_maker(names: Sequence[str]) -> Callable[..., dict[str, Any]]:
    """Returns a function that creates a dict from the values of a row.

    Args:
        names: names of the columns, in the order of the values.

    Returns:
        The function, which takes one value per name.

    Example:
        >>> row_maker(["x", "y"])(1, 2)
        {'x': 1, 'y': 2}
    """
    make = _MAKERS.get(len(names))
    return make(*names) if make else lambda *values: dict(zip(names, values))


_Converted = TypeVar("_Converted")

ROWS_AT_A_TIME = 4096  # rows to convert to Python at a time in sequential reads; Arrow's values are smaller
_DECODED = 4  # chunks, or windows of chunks, to decode by one worker
_ROWS_OF_ARRAYS = 2**16  # rows to convert to arrays at a time


# The errors of pyarrow; MemoryError if a damaged file requests more memory than any machine has.
ARROW_ERRORS = (
    OSError,
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    NotImplementedError,
    MemoryError,
)


class ChunkedRows(OpenedRecords):
    """Rows of a file, with some chunks kept in memory; abstract.

    Args:
        path: path of the file.
        columns: names of the columns; all by default.
        keep: number of chunks to keep.

        Attributes:
            sizes: number of rows of each chunk.
    """

    _kind: ClassVar[str]  # name of a chunk in messages
    decoded: ClassVar[bool] = False  # whether reading a row decodes its chunk

    def __init__(self, path: URL, columns: Sequence[str] | None, keep: int) -> None:
        """Reads the schema and the sizes of the chunks and closes the file."""
        super().__init__(path)
        self._keep = keep
        self._chunks: OrderedDict[int, tuple[Sequence[Any], ...]] = OrderedDict()
        with open_url(path) as stored:
            self._version = stored.version
            schema, sizes = self._described(stored)
        self._columns = self._wanted(schema.names, columns)
        self._converters = self._made_for(schema)
        self._column_arrays = [
            ColumnArray(schema.field(name).type, written_kind(schema.field(name))) for name in self._columns
        ]
        self._arrays: OrderedDict[int, list[np.ndarray] | None] = OrderedDict()
        self.sizes = np.array(sizes, np.int64)
        self._ends = np.cumsum(self.sizes)
        self.__qualname__ = f"{self._name} of {len(self)} rows"

    @abstractmethod
    def _described(self, stored: StoredFile) -> tuple[Any, list[int]]:
        """Returns the schema of all columns, and the number of rows of each chunk."""

    @abstractmethod
    def _opened_as(self, stored: StoredFile) -> Any:
        """Returns the source for `_batches`."""

    @abstractmethod
    def _batches(self, number: int, rows: int = ROWS_AT_A_TIME) -> Iterator[Any]:
        """Yields a chunk as record batches of at most `rows`, with at least the selected columns."""

    def _wanted(self, names: list[str], columns: Sequence[str] | None) -> list[str]:
        wanted = list(names if columns is None else columns)
        for name in wanted:
            if name not in names:
                raise ComponentError(f"{self._name} has no column {name!r}; it has {', '.join(names)}")
            if names.count(name) > 1:
                raise FormatError(
                    f"{self._name} has {names.count(name)} columns named {name!r}, but a row can "
                    "have only one: rename them, or select other columns with columns"
                )
        return wanted

    def _made_for(self, schema: Any) -> list[Callable[[Any], list[Any]]]:
        """Returns the functions that convert the columns to lists."""
        try:
            fields = [schema.field(name) for name in self._columns]
            return [converter(field.type, written_kind(field)) for field in fields]
        except ARROW_ERRORS as error:  # including our FormatError
            raise FormatError(f"{self._name}, {error}") from error

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def _record(self, index: int) -> dict[str, Any]:
        number = self._chunk_of(index)
        place = index - self._begin(number)
        stored = self._file()[0]
        stored.check()
        row = dict(zip(self._columns, [values[place] for values in self._chunk(number)]))
        stored.check()
        return row

    def in_order(self, start: int) -> Iterator[Iterable[dict[str, Any]]]:
        """Yields the rows from number `start` on, many at a time, without keeping chunks."""
        for number in range(self._chunk_of(start), len(self.sizes)):
            yield from self._converted(number, self._rows, max(start - self._begin(number), 0))

    def columns(self, gather: Callable[[Epoch, range, Sequence[np.ndarray]], None]) -> Columns | None:
        """Returns the layout of batches; `None` if a column has no common dtype."""
        fields = [each.field for each in self._column_arrays if each.field is not None]
        if not len(self) or not fields or len(fields) < len(self._column_arrays):
            return None
        integers = any(each.integers for each in self._column_arrays)
        return Columns(dict, self._columns, fields, gather, integers)

    def gather(self, rows: range | np.ndarray, out: Sequence[np.ndarray]) -> None:
        """Writes rows into arrays, one for each column.

        Raises:
            NoColumnsError: the values in a chunk have no common dtype.
        """
        stored = self._file()[0]
        stored.check()
        if isinstance(rows, range):
            self._gather_range(rows, out)
        else:
            numbers = self._chunks_of(rows)
            # In the order of their first rows: the chunks of one window before those of the next.
            found, first = np.unique(numbers, return_index=True)
            for number in found[np.argsort(first)].tolist():
                places = np.flatnonzero(numbers == number)
                wanted = rows[places] - self._begin(number)
                for target, column in zip(out, self._chunk_arrays(number)):
                    target[places] = column.take(wanted, 0)
        stored.check()

    def _gather_range(self, rows: range, out: Sequence[np.ndarray]) -> None:
        done = 0
        while done < len(rows):
            number = self._chunk_of(rows[done])
            part = rows[done:]
            part = part[: len(range(part.start, min(part.stop, int(self._ends[number])), part.step))]
            begin = self._begin(number)
            wanted = slice(part.start - begin, part.stop - begin, part.step)
            for target, column in zip(out, self._chunk_arrays(number)):
                target[done : done + len(part)] = column[wanted]
            done += len(part)

    def _chunk_arrays(self, number: int) -> list[np.ndarray]:
        """Returns the columns of a chunk as arrays.

        Raises:
            NoColumnsError: a row has no value, or a number that a batch rejects.
        """
        if number in self._arrays:
            self._arrays.move_to_end(number)
            arrays = self._arrays[number]
        else:
            try:
                arrays = self._as_arrays(number)
            except NoColumnsError:
                arrays = None
            while len(self._arrays) >= self._kept_arrays(arrays):
                self._arrays.popitem(last=False)
            self._arrays[number] = arrays
        if arrays is None:
            raise NoColumnsError
        return arrays

    def _kept_arrays(self, arrays: list[np.ndarray] | None) -> int:
        """Returns the number of chunks that are kept as arrays, given the newest."""
        return self._keep

    def _as_arrays(self, number: int) -> list[np.ndarray]:
        def arrays(batch: Any) -> list[np.ndarray]:
            return [convert(column) for convert, column in zip(self._column_arrays, batch.columns)]

        parts = list(self._converted(number, arrays, rows=_ROWS_OF_ARRAYS))
        return parts[0] if len(parts) == 1 else list(map(np.concatenate, zip(*parts)))

    def _chunks_of(self, rows: np.ndarray) -> np.ndarray:
        """Returns the chunk of each row."""
        size = int(self.sizes[0])
        if (self.sizes[:-1] == size).all() and self.sizes[-1] <= size:  # ten times faster than a search
            return rows // size
        return np.searchsorted(self._ends, rows, "right")

    def _chunk_of(self, index: int) -> int:
        return int(np.searchsorted(self._ends, index, "right"))

    def _begin(self, number: int) -> int:
        return int(self._ends[number - 1]) if number else 0

    def _chunk(self, number: int) -> tuple[Sequence[Any], ...]:
        """Returns the columns of a chunk."""
        chunk = self._chunks.get(number)
        if chunk is None:
            while len(self._chunks) >= self._keep:
                self._chunks.popitem(last=False)
            chunk = self._chunks[number] = self._loaded(number)
        else:
            self._chunks.move_to_end(number)
        return chunk

    def _loaded(self, number: int) -> tuple[Sequence[Any], ...]:
        """Returns the columns of a chunk to keep."""
        parts = zip(*self._converted(number, self._values))
        return tuple([*chain.from_iterable(part)] for part in parts)

    def _converted(
        self, number: int, convert: Callable[[Any], _Converted], start: int = 0, rows: int = ROWS_AT_A_TIME
    ) -> Iterator[_Converted]:
        """Yields the batches of a chunk, from row `start` on, converted by `convert`."""
        count = 0
        stored = self._file()[0]
        with self._reading(number):
            stored.check()
            for batch in self._batches(number, rows):
                if count + batch.num_rows > start:
                    converted = convert(batch.select(self._columns).slice(max(start - count, 0)))
                    stored.check()
                    yield converted
                    stored.check()
                count += batch.num_rows
        if count != self.sizes[number]:
            said = self.sizes[number]
            raise FormatError(f"{self._name}, {self._kind} {number}, has {count} rows instead of {said}")

    def _rows(self, batch: Any) -> Iterable[dict[str, Any]]:
        if not self._columns:
            return ({} for _ in range(batch.num_rows))
        return map(row_maker(self._columns), *self._values(batch))

    def _values(self, batch: Any) -> list[list[Any]]:
        """Returns the values of each column, as Python and NumPy objects."""
        return [convert(column) for convert, column in zip(self._converters, batch.columns)]

    @contextmanager
    def _reading(self, number: int) -> Iterator[None]:
        """Adds the file and the chunk to errors of reading."""
        try:
            yield
        except DataFlowError:
            raise
        except ARROW_ERRORS as error:
            raise FormatError(f"{self._name}, {self._kind} {number}, cannot be read: {error}") from error

    def _open(self) -> tuple[StoredFile, Any]:
        stored = open_same(self._path, self._version)
        return stored, self._opened_as(stored)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_chunks": OrderedDict(), "_arrays": OrderedDict()}


class ChunkedFlow(RecordFlow):
    """Yields the rows of a file, each a dict; addressable. Reading a row reads its whole chunk.

    Args:
        make: creates the rows; its argument is the number of chunks in memory.
        shuffle: a `ChunkShuffle`, or whether each epoch draws its order among all rows.
        keep: name and value of the argument for the number of chunks in memory; None for the window, or one
            without a window.
    """

    _lst: ChunkedRows

    def __init__(
        self,
        make: Callable[[int], ChunkedRows],
        shuffle: bool | ChunkShuffle,
        keep: tuple[str, int | None],
    ) -> None:
        """Creates the rows."""
        self._window = shuffle.window if isinstance(shuffle, ChunkShuffle) else 0
        kept = max(self._window, 1) if keep[1] is None else arguments.count(keep[0], keep[1])
        super().__init__(make(kept), True if self._window else arguments.flag("shuffle", shuffle))

    @property
    def _decoded_together(self) -> int:
        """The number of rows for one worker; the chunks at the ends of its rows may be decoded twice."""
        if not self._lst.decoded or (self._shuffle and not self._window):
            return 0
        return int(self._lst.sizes.mean() * _DECODED * max(self._window, 1)) if len(self._lst) else 0

    def identity(self) -> dict[str, bool | int | str]:
        """Returns the order and its window."""
        return {**super().identity(), "window": self._window}

    def _columns(self) -> Columns | None:
        return self._lst.columns(self._gathered)

    def _gathered(self, epoch: Epoch, wanted: range, out: Sequence[np.ndarray]) -> None:
        self._lst.gather(self._order(epoch).indices(wanted) if self._shuffle else wanted, out)

    def _one_by_one(self, epoch: Epoch, start: int) -> Iterator[Any]:
        # Rows are made so fast that another generator around each of them would be noticeable.
        return super()._one_by_one(epoch, start) if self._shuffle else chain.from_iterable(self._lists(start))

    def _lists(self, start: int) -> Iterator[Iterable[Any]]:
        with origin_of_errors(self):
            yield from self._lst.in_order(start)

    def _order(self, epoch: Epoch) -> Any:
        if not self._window:
            return super()._order(epoch)
        last: Any = self._last_order
        if last is None or last[0] != epoch.identity:
            last = self._last_order = (epoch.identity, ChunkOrder(self._lst.sizes, self._window, epoch.rng()))  # type: ignore[assignment]
        return last[1]


def arrow_source(stored: StoredFile) -> Any:
    """Returns a file object for pyarrow; a local file is mapped."""
    import pyarrow as pa

    if is_local(stored.name):
        return pa.BufferReader(stored.map())
    return pa.PythonFile(StoredStream(stored), mode="r")
