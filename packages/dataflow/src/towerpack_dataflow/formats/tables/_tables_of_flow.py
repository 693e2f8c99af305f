"""Conversion of a flow of dicts to Arrow tables, in blocks of datapoints."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from tempfile import SpooledTemporaryFile
from typing import IO, Any, Final, final

from ..._errors import ArgumentError, SendError
from ...sources._from_iterable import as_dataflow
from ...storage import URL
from .._plain_values import shown, with_progress
from ._arrow_values import KIND_KEY, NONE, arrow_column, kind_of

__all__ = ["refusing", "tables_of", "version_in"]

_VERSION: Final = "1"
_WRITTEN: Final = "towerpack"
_IN_MEMORY: Final = 2**26  # bytes of tables waiting for the types of their columns


def tables_of(df: Any, rows: int, path: URL, kind: str) -> Iterator[Any]:
    """Yields one pass of a flow as tables with one schema, which marks a file of them as ours.

    Tables wait, in memory and then in a temporary file, until the type of each column is known from a value.

    Args:
        df: the flow, a list or another iterable; datapoints are dicts.
        rows: number of rows of a table; the last one may have fewer.
        path: path of the target file, for the progress bar.
        kind: kind of the file, such as "Parquet", for messages.

    Raises:
        ArgumentError: the flow has no datapoints, so the columns are unknown.
        SendError: a datapoint is not a dict, has other keys than the first, or a value that the file cannot
            restore in value and type, or of another type than those before it.
    """
    datapoints = iter(with_progress(as_dataflow(df), f"writing {os.path.basename(path)}"))
    begin, columns = 0, _Columns(kind)
    with SpooledTemporaryFile(_IN_MEMORY) as file:
        waiting = _Waiting(file)
        while index_range := list(islice(datapoints, rows)):
            table = columns.table(index_range, begin)
            begin += len(index_range)
            if columns.known():
                yield from waiting.tables(columns.schema())
                yield _retyped(table, columns.schema())
            else:
                waiting.put(table)
        if not begin:
            raise ArgumentError(f"{kind} needs a datapoint to determine the columns; received none")
        yield from waiting.tables(columns.schema())


@contextmanager
def refusing(kind: str) -> Iterator[None]:
    """Raises Arrow's errors in the block as `SendError`, with the kind of the file."""
    import pyarrow as pa

    try:
        yield
    except pa.ArrowException as error:
        raise SendError(f"{kind} cannot hold the columns of the flow: {error}") from error


def version_in(schema: Any) -> int | None:
    """Returns the format version of a file by its schema; `None` for a file of another program."""
    version = (schema.metadata or {}).get(_WRITTEN.encode())
    return int(version) if version is not None and version.isdigit() else None


@final
class _Columns:
    """The kinds and types of the columns known so far."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._kinds: dict[str, str] = {}
        self._types: dict[str, Any] = {}

    def table(self, rows: Sequence[Any], begin: int) -> Any:
        """Returns rows as a table; `begin` is the number of the first row."""
        import pyarrow as pa

        if not begin:
            self._take_names(rows[0])
        names = self._kinds.keys()
        for number, row in enumerate(rows, begin):
            if not isinstance(row, dict) or row.keys() != names:
                raise SendError(
                    f"datapoint {number} must be a dict with the keys {[*names]}; received {shown(row, 100)}"
                )
        return pa.table({name: self._column(name, [row[name] for row in rows], begin) for name in names})

    def known(self) -> bool:
        """Tells whether the type of each column is known."""
        return not any(map(_has_null, self._types.values()))

    def schema(self) -> Any:
        """Returns the schema of all tables."""
        import pyarrow as pa

        fields = [
            pa.field(name, self._types[name], metadata={KIND_KEY: kind}) for name, kind in self._kinds.items()
        ]
        return pa.schema(fields, {_WRITTEN: _VERSION})

    def _take_names(self, first: Any) -> None:
        import pyarrow as pa

        if not isinstance(first, dict) or not first:
            raise SendError(
                f"datapoint 0 must be a dict with a key for each column; received {shown(first, 100)}"
            )
        for name in first:
            if type(name) is not str or not _is_unicode(name):
                raise SendError(
                    f"datapoint 0 has the key {shown(name, 100)}; {self._file} accepts only strings as keys"
                )
        self._kinds = dict.fromkeys(first, NONE)
        self._types = dict.fromkeys(first, pa.null())

    def _column(self, name: str, values: list[Any], begin: int) -> Any:
        kind = self._kinds[name] = self._kind(name, values, begin)
        kept = None if _has_null(self._types[name]) else self._types[name]
        try:
            column = arrow_column(values, kind, kept)
            self._types[name] = _merged(self._types[name], column.type)
        except _refusals() as error:
            raise self._refused(name, values, begin, kind, error) from error
        return column

    def _kind(self, name: str, values: list[Any], begin: int) -> str:
        """Returns the kind of a column's values."""
        kind, types = self._kinds[name], set(map(type, values))
        if len(types) == 1 and types <= {bool, int, float, str, bytes} and kind in (NONE, kind_of(values[0])):
            return kind_of(values[0])
        for number, value in enumerate(values, begin):
            try:
                found = kind_of(value)
            except TypeError as error:
                raise SendError(
                    f"datapoint {number}, component {name!r}: {self._file} cannot hold it: {error}"
                ) from error
            if found not in (NONE, kind) and kind != NONE:
                raise SendError(
                    f"datapoint {number}, component {name!r}: {self._file} has one type per column, here "
                    f"{kind} from earlier values; received {shown(value)} of the type {found}"
                )
            kind = kind if found == NONE else found
        return kind

    def _refused(self, name: str, values: list[Any], begin: int, kind: str, error: Exception) -> SendError:
        """Returns the error that names the first value that does not match those before it."""
        known = self._types[name]
        for number, value in enumerate(values, begin):
            try:
                column = arrow_column([value], kind, None if _has_null(known) else known)
                known = _merged(known, column.type)
            except _refusals() as found:
                return SendError(
                    f"datapoint {number}, component {name!r}: {self._file} cannot hold {shown(value)} in a "
                    f"column of the type {known}: {found}"
                )
        return SendError(
            f"datapoints {begin} to {begin + len(values) - 1}, component {name!r}: {self._file} cannot hold "
            f"them in one column: {error}"
        )


@final
class _Waiting:
    """Tables in a file, waiting for the types of all columns."""

    def __init__(self, file: IO[bytes]) -> None:
        self._sizes: list[int] = []
        self._file = file

    def put(self, table: Any) -> None:
        """Appends a table."""
        import pyarrow as pa

        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        content = sink.getvalue()
        self._file.write(content)
        self._sizes.append(content.size)

    def tables(self, schema: Any) -> Iterator[Any]:
        """Yields the tables with the types of a schema, and removes them."""
        import pyarrow as pa

        if self._sizes:
            self._file.seek(0)
        while self._sizes:
            table = pa.ipc.open_stream(self._file.read(self._sizes.pop(0))).read_all()
            yield _retyped(table, schema)


def _retyped(table: Any, schema: Any) -> Any:
    """Returns a table with the types of a schema, which differ for columns without values."""
    import pyarrow as pa

    def column(had: Any, kind: Any) -> Any:
        if had.type == kind:
            return had
        # `cast` of pyarrow 26 damages lists of nulls: their offsets then exceed their values.
        return pa.array(had.to_pylist(), kind)

    return pa.table([*map(column, table.columns, schema.types)], schema)


def _refusals() -> tuple[type[Exception], ...]:
    import pyarrow as pa

    return pa.ArrowException, TypeError, ValueError, OverflowError


def _is_unicode(text: str) -> bool:
    """Tells whether UTF-8 can encode a text, which must have no lone surrogate."""
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def _has_null(kind: Any) -> bool:
    """Tells whether a type, or one within it, is the null type."""
    import pyarrow as pa

    if pa.types.is_null(kind):
        return True
    return any(_has_null(kind.field(place).type) for place in range(kind.num_fields))


def _merged(kind: Any, other: Any) -> Any:
    """Returns the common type of two columns, of which one may have no values.

    Raises:
        TypeError: the columns have two types.
    """
    import pyarrow as pa

    if pa.types.is_null(kind) or kind == other:
        return other
    if pa.types.is_null(other):
        return kind
    if pa.types.is_list(kind) and pa.types.is_list(other):
        return pa.list_(_merged(kind.value_type, other.value_type))
    if pa.types.is_struct(kind) and pa.types.is_struct(other) and kind.names == other.names:
        parts = zip(kind.names, kind, other)
        return pa.struct([(name, _merged(one.type, two.type)) for name, one, two in parts])
    raise TypeError(f"earlier values have the type {kind}, these have the type {other}")
