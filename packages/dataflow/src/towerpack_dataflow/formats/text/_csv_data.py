"""`CSVData`: the rows of a text table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, final

from ... import _argument_checks as arguments
from ..._errors import ArgumentError, ComponentError, FormatError
from ...storage import URL
from .._record_flow import RecordFlow
from ._csv_fields import fields, typed_fields
from ._text_records import ROWS, TextRecords, index_text

__all__ = ["CSVData", "index_csv"]


@final
class CSVData(RecordFlow):
    """Yields the rows of a table with a header; addressable.

    The start of each row is read from the index `<path>.index`, if written by `index_csv`; otherwise the file
    is scanned when the flow is created. A datapoint is a dict of the columns. As in RFC 4180, a field in
    double quotes may contain commas, line ends and doubled quotes. Lines end with a newline, a return, or
    both; blank lines, and a byte order mark at the beginning, are ignored.

    Args:
        path: path of the file; its first line has the names of the columns. For a file compressed with gzip,
            bzip2 or xz, or in an encoding such as UTF-16, a decoded copy is stored in the cache of
            `local_path`.
        columns: the columns, each with a function that converts its text, such as `{"x": float, "label":
            int}`; by default, all, as text.
        shuffle: whether each epoch draws its order.
        delimiter: one character between fields.
        encoding: encoding of the text, such as "cp1252".
        typed: whether a field without quotes in Python's notation is a number, `True` or `False`, or, if it
            is empty, None. `CSVSerializer` writes values in this form.

    Raises:
        ArgumentError: `delimiter` is not one character, `columns` is not a dict of functions, or is combined
            with `typed`, or the encoding is unknown.
        ComponentError: the table has no such column.
        FormatError: the file has no header, ends inside quotes, or is compressed and damaged, or the index is
            damaged; or, while iterating, a row has more or fewer fields than the header, or a function
            rejects a field.
        OSError: the file is missing or not readable.

    Example:
        >>> import tempfile
        >>> from towerpack_dataflow import CSVSerializer
        >>> path = tempfile.mkdtemp() + "/points.csv"
        >>> CSVSerializer.save([[0.5, 1], [1.5, 2]], path, ["x", "label"])
        >>> list(CSVData(path, {"x": float, "label": int}))
        [{'x': 0.5, 'label': 1}, {'x': 1.5, 'label': 2}]
    """

    def __init__(
        self,
        path: URL,
        columns: Mapping[str, Callable[[str], Any]] | None = None,
        shuffle: bool = False,
        delimiter: str = ",",
        encoding: str = "utf-8",
        typed: bool = False,
    ) -> None:
        """Reads the header and locates the rows."""
        _check_delimiter(delimiter)
        if arguments.flag("typed", typed) and columns is not None:
            raise ArgumentError("columns converts text, and typed reads values: pass only one of them")
        records = TextRecords(path, str, ROWS, encoding, skip=1)
        records.decode = _Row(records.name, _header(records, delimiter), columns, delimiter, typed)
        super().__init__(records, shuffle)


def index_csv(path: URL, encoding: str = "utf-8") -> int:
    """Writes the index of a table, `<path>.index`, so that flows over the file are created at once.

    The index records its format and version, and size, time and last bytes of the file, so that a flow
    detects a replaced file.

    Args:
        path: path of the file.
        encoding: encoding of the text.

    Returns:
        the number of rows, without the header.

    Raises:
        ArgumentError: the file is compressed, or in an encoding such as UTF-16, so that a copy of it is read;
            or the encoding is unknown.
        FormatError: the file ends inside quotes.
        OSError: the file cannot be read, or the index cannot be written.
    """
    return max(index_text(path, ROWS, encoding) - 1, 0)


@final
class _Row:
    """Creates the datapoint from a record's text."""

    def __init__(
        self,
        file: str,
        header: list[str],
        columns: Mapping[str, Callable[[str], Any]] | None,
        delimiter: str,
        typed: bool,
    ) -> None:
        if columns is not None and not (
            isinstance(columns, Mapping) and all(map(callable, columns.values()))
        ):
            raise ArgumentError(f"columns is a dict of functions by names of columns; received {columns!r}")
        missing = [name for name in columns or () if name not in header]
        if missing:
            raise ComponentError(f"{file} has no column {missing[0]!r}; it has {', '.join(header)}")
        self._header, self._delimiter = header, delimiter
        self._fields: Callable[[str, str], list[Any]] = typed_fields if typed else fields
        self._made = (
            None if columns is None else [(name, header.index(name), make) for name, make in columns.items()]
        )

    def __call__(self, text: str) -> dict[str, Any]:
        values = self._fields(text, self._delimiter)
        if len(values) != len(self._header):
            raise FormatError(
                f"the row has {len(values)} fields, but the header has {len(self._header)}: {text:.60}"
            )
        if self._made is None:
            return dict(zip(self._header, values))
        return {name: _value(name, values[place], make) for name, place, make in self._made}


def _value(name: str, text: str, make: Callable[[str], Any]) -> Any:
    try:
        return make(text)
    except ValueError as error:
        raise FormatError(f"column {name!r}: {error}") from error


def _check_delimiter(delimiter: str) -> None:
    if not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in '"\r\n':
        raise ArgumentError(f"delimiter is one character, not a quote or line end; received {delimiter!r}")


def _header(records: TextRecords, delimiter: str) -> list[str]:
    """Returns the names of the columns."""
    names = fields(records.skipped[0], delimiter) if records.skipped else []
    if not names or len(set(names)) < len(names):
        raise FormatError(f"{records.name}: its first line must have a name for each column; found {names}")
    return names
