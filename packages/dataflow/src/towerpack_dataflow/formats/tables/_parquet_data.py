"""`ParquetData`: the rows of a Parquet file."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import Any, final

import numpy as np

from ... import _argument_checks as arguments
from ..._errors import ComponentError, FormatError, extra
from ...flow._epoch import Epoch
from ...storage import URL, StoredFile, StoredStream, is_local, open_url
from .._opened_records import OpenedRecords, open_same
from .._record_flow import RecordFlow
from ._chunk_shuffle import ChunkOrder, ChunkShuffle

__all__ = ["ParquetData", "opened_parquet"]


@final
class ParquetData(RecordFlow):
    """Yields the rows of a Parquet file; addressable. A row group is read as a whole when a row is wanted.

    A datapoint is a dict of the columns: Python's numbers, strings, bytes and None, and arrays where a value
    is a list of numbers.

    Args:
        path: of the file; of a file elsewhere, the columns that are wanted are read.
        columns: which columns; all if not given.
        shuffle: a `ChunkShuffle`, for an order that reads each row group once; or whether each epoch has an
            order of its own among all rows, which is slow unless the file fits into the groups that are kept.
        keep_groups: how many row groups stay in memory; as many as the window if not given, else one.

    Raises:
        ArgumentError: `keep_groups` is not positive.
        ComponentError: the file has no such column.
        FormatError: the file is no Parquet file, is cut off or damaged.
        ImportError: the extra `[parquet]` is missing.
        OSError: the file is missing, or may not be read.
    """

    _lst: _ParquetRows
    _holds = ()
    _steady = True

    def __init__(
        self,
        path: URL,
        columns: Sequence[str] | None = None,
        shuffle: bool | ChunkShuffle = False,
        keep_groups: int | None = None,
    ) -> None:
        """Reads the file's own index, and closes it again."""
        self._window = shuffle.window if isinstance(shuffle, ChunkShuffle) else 0
        keep = max(self._window, 1) if keep_groups is None else arguments.count("keep_groups", keep_groups)
        rows: Any = _ParquetRows(path, columns, keep)
        super().__init__(rows, True if self._window else arguments.flag("shuffle", shuffle))

    def _facts(self) -> dict[str, Any]:
        return {**super()._facts(), "window": self._window}

    def _order(self, epoch: Epoch) -> Any:
        if not self._window:
            return super()._order(epoch)
        last: Any = self._last_order
        if last is None or last[0] != epoch.identity:
            last = self._last_order = (epoch.identity, ChunkOrder(self._lst.sizes, self._window, epoch.rng()))  # type: ignore[assignment]
        return last[1]


@final
class _ParquetRows(OpenedRecords):
    """Rows of a file, some row groups of which are kept.

    Attributes:
        sizes: rows of each group.
    """

    def __init__(self, path: URL, columns: Sequence[str] | None, keep: int) -> None:
        super().__init__(path)
        self._keep = keep
        self._groups: OrderedDict[int, tuple[Any, ...]] = OrderedDict()
        with open_url(path) as stored:
            self._version = stored.version
            file = opened_parquet(stored)
            names = file.schema_arrow.names
            facts = [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)]
        missing = [name for name in columns or () if name not in names]
        if missing:
            raise ComponentError(f"{self._name} has no column {missing[0]!r}; it has {', '.join(names)}")
        self._columns = list(names if columns is None else columns)
        self.sizes = np.array(facts, np.int64)
        self._ends = np.cumsum(self.sizes)
        self.__qualname__ = f"{self._name} of {len(self)} rows"

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def _record(self, index: int) -> dict[str, Any]:
        number = int(np.searchsorted(self._ends, index, "right"))
        place = index - (int(self._ends[number - 1]) if number else 0)
        return dict(zip(self._columns, [values[place] for values in self._group(number)]))

    def rest(self, start: int) -> Iterator[dict[str, Any]]:
        """Yields the rows from number `start` on."""
        first = int(np.searchsorted(self._ends, start, "right"))
        for number in range(first, len(self.sizes)):
            skipped = start - int(self._ends[number - 1] if number else 0) if number == first else 0
            columns = [values[skipped:] for values in self._group(number)]
            yield from map(dict, map(zip, repeat(self._columns), zip(*columns)))

    def _group(self, number: int) -> tuple[Any, ...]:
        group = self._groups.get(number)
        if group is None:
            while len(self._groups) >= self._keep:
                self._groups.popitem(last=False)
            group = self._groups[number] = self._read(number)
        else:
            self._groups.move_to_end(number)
        return group

    def _read(self, number: int) -> tuple[Any, ...]:
        try:
            table = self._file().read_row_group(number, self._columns)
            return tuple(_values(column.combine_chunks()) for column in table.columns)
        except FormatError:
            raise
        except (
            OSError,
            ValueError,
            LookupError,
            NotImplementedError,
        ) as error:  # pyarrow's own errors are these
            raise FormatError(f"{self._name}, row group {number}, cannot be read: {error}") from error

    def _open(self) -> Any:
        return opened_parquet(open_same(self._path, self._version))

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_groups": OrderedDict()}


def opened_parquet(stored: StoredFile) -> Any:
    """Opens a Parquet file.

    Raises:
        FormatError: it is none, is cut off or damaged.
        ImportError: the extra `[parquet]` is missing.
    """
    with extra("parquet", f"reading {stored.name}"):
        import pyarrow as pa
        from pyarrow import parquet
    try:
        here = is_local(stored.name)
        source = pa.BufferReader(stored.read()) if here else pa.PythonFile(StoredStream(stored), mode="r")
        return parquet.ParquetFile(source)
    except (pa.ArrowException, OSError) as error:
        raise FormatError(f"{stored.name} is no Parquet file, or is cut off or damaged: {error}") from error


def _values(column: Any) -> Any:
    """Returns the values of a column as a sequence of Python's values and of arrays."""
    import pyarrow as pa

    kind = column.type
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    if is_list and (pa.types.is_integer(kind.value_type) or pa.types.is_floating(kind.value_type)):
        return [None if entry is None else np.array(entry) for entry in _lists(column)]
    return column.to_pylist()


def _lists(column: Any) -> Iterator[Any]:
    for entry in column:
        yield None if not entry.is_valid else entry.values.to_numpy(zero_copy_only=False)
