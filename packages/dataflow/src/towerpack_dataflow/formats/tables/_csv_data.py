"""`CSVData` and `CSVSerializer`: a line of a table for each datapoint."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

from ..._errors import ArgumentError, ComponentError, FormatError
from ...sources._as_dataflow import as_dataflow
from ...storage import URL, create_file, open_url
from .._progress import with_progress
from .._record_flow import RecordFlow
from ._text_records import ROWS, TextRecords, index_text

__all__ = ["CSVData", "CSVSerializer", "index_csv"]

_LONGEST_HEADER = 2**20


@final
class CSVData(RecordFlow):
    """Yields the rows of a table with a header; addressable.

    Where each row begins is read from the index beside the file, if `index_csv` has written one; else the
    file is read for it when the flow is made. A datapoint is a dict of the columns. As in RFC 4180, a field
    in double quotes may hold commas, line ends and doubled quotes.

    Args:
        path: of the file, in UTF-8; its first line has the names of the columns.
        columns: which columns, and what makes a value of each one's text, such as
            `{"x": float, "label": int}`; if not given, all, as text.
        shuffle: whether each epoch has an order of its own.
        delimiter: one character between fields.

    Raises:
        ArgumentError: `delimiter` is not one character, or `columns` is no dict of functions.
        ComponentError: the table has no such column.
        FormatError: the file has no header, or ends inside of quotes, or the index is damaged; a pass raises
            it for a row that has more or fewer fields than the header, or a field that its function refuses.
        OSError: the file is missing, or may not be read.

    Example:
        >>> import tempfile
        >>> path = tempfile.mkdtemp() + "/points.csv"
        >>> CSVSerializer.save([[0.5, 1], [1.5, 2]], path, ["x", "label"])
        >>> list(CSVData(path, {"x": float, "label": int}))
        [{'x': 0.5, 'label': 1}, {'x': 1.5, 'label': 2}]
    """

    _holds = ()
    _steady = True

    def __init__(
        self,
        path: URL,
        columns: Mapping[str, Callable[[str], Any]] | None = None,
        shuffle: bool = False,
        delimiter: str = ",",
    ) -> None:
        """Reads the header, and finds the rows."""
        name, header = _header(path, _checked_delimiter(delimiter))
        decode = _Row(name, header, columns, delimiter)
        super().__init__(TextRecords(path, decode, ROWS, skip=1), shuffle)


@final
class CSVSerializer:
    """Writes a flow as a table, and reads it as text."""

    @staticmethod
    def save(df: Any, path: URL, columns: Sequence[str]) -> None:
        """Writes one pass of a flow, a row for each datapoint.

        Args:
            df: the flow, or what can stand in its place; datapoints are lists or tuples, or dicts of the
                columns.
            path: of the file. One that exists is replaced.
            columns: the names, for the header.

        Raises:
            ArgumentError: a datapoint has other components than there are columns.
            OSError: the file cannot be written.
        """
        names = list(columns)
        with create_file(path) as file:
            text = io.TextIOWrapper(file, "utf-8", newline="")
            rows = csv.writer(text, lineterminator="\n")
            rows.writerow(names)
            for number, datapoint in enumerate(
                with_progress(as_dataflow(df), f"writing {os.path.basename(path)}")
            ):
                rows.writerow(_fields_of(datapoint, names, number))
            text.detach()

    @staticmethod
    def load(path: URL, shuffle: bool = False) -> CSVData:
        """Returns `CSVData(path, shuffle=shuffle)`."""
        return CSVData(path, shuffle=shuffle)


def index_csv(path: URL) -> int:
    """Writes the index of a table, `<path>.index`, so that flows over the file are made at once.

    The index says its format and version, and size, time and last bytes of the file, so that a flow notices
    if the file has been replaced since.

    Args:
        path: of the file.

    Returns:
        the number of rows, without the header.

    Raises:
        FormatError: the file ends inside of quotes.
        OSError: the file cannot be read, or the index cannot be written.
    """
    return max(index_text(path, ROWS) - 1, 0)


@final
class _Row:
    """Makes the datapoint of a record's text."""

    def __init__(
        self, file: str, header: list[str], columns: Mapping[str, Callable[[str], Any]] | None, delimiter: str
    ) -> None:
        if columns is not None and not (
            isinstance(columns, Mapping) and all(map(callable, columns.values()))
        ):
            raise ArgumentError(f"columns is a dict of functions by names of columns; received {columns!r}")
        missing = [name for name in columns or () if name not in header]
        if missing:
            raise ComponentError(f"{file} has no column {missing[0]!r}; it has {', '.join(header)}")
        self._count, self._delimiter = len(header), delimiter
        wanted: Mapping[str, Callable[[str], Any]] = (
            dict.fromkeys(header, str) if columns is None else columns
        )
        self._fields = [(name, header.index(name), make) for name, make in wanted.items()]

    def __call__(self, text: str) -> dict[str, Any]:
        values = _fields(text, self._delimiter)
        if len(values) != self._count:
            raise FormatError(f"the row has {len(values)} fields, and the header {self._count}: {text:.60}")
        return {name: self._made(name, values[place], make) for name, place, make in self._fields}

    @staticmethod
    def _made(name: str, text: str, make: Callable[[str], Any]) -> Any:
        try:
            return make(text)
        except ValueError as error:
            raise FormatError(f"column {name!r}: {error}") from error


def _checked_delimiter(delimiter: str) -> str:
    if not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in '"\r\n':
        raise ArgumentError(f"delimiter is one character, and no quote or line end; received {delimiter!r}")
    return delimiter


def _header(path: URL, delimiter: str) -> tuple[str, list[str]]:
    """Returns the name of the file without credentials, and those of its columns."""
    with open_url(path) as file:
        begin = bytes(file.read(0, min(file.size, _LONGEST_HEADER)))
    try:
        names = _fields(_first_record(begin).decode("utf-8-sig").rstrip("\r\n"), delimiter)
    except UnicodeDecodeError as error:
        raise FormatError(f"{file.name}: its header is no UTF-8: {error}") from error
    if not names or len(set(names)) < len(names):
        raise FormatError(f"{file.name}: its first line is to have a name for each column; found {names}")
    return file.name, names


def _first_record(begin: bytes) -> bytes:
    """Returns the bytes up to the first end of a line that is not in quotes."""
    end = quotes = 0
    for line in begin.splitlines(True):
        end, quotes = end + len(line), quotes + line.count(b'"')
        if line.endswith(b"\n") and quotes % 2 == 0:
            break
    return begin[:end]


def _fields(text: str, delimiter: str) -> list[str]:
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    except csv.Error as error:
        raise FormatError(f"the row is no CSV: {error}") from error
    if len(rows) > 1:  # two lines with an odd number of quotes each, none of which begins a field
        raise FormatError(
            f"a quote in it belongs to no field in quotes, so that its end is unclear: {text:.60}"
        )
    return rows[0] if rows else []


def _fields_of(datapoint: Any, names: list[str], number: int) -> list[Any]:
    fits = set(datapoint) == set(names) if isinstance(datapoint, dict) else len(datapoint) == len(names)
    if not fits:
        raise ArgumentError(f"datapoint {number} is to have {names}; received {datapoint!r:.100}")
    return [datapoint[name] for name in names] if isinstance(datapoint, dict) else list(datapoint)
