"""`CSVData` and `CSVSerializer`: the rows of text tables, and their fields."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, final

from ... import _argument_checks as arguments
from ..._errors import ArgumentError, ComponentError, FormatError, SendError
from ...sources._from_iterable import as_dataflow
from ...storage import URL, create_file
from .._plain_values import plain_scalar, shown, with_progress
from .._record_flow import RecordFlow
from ._text_records import ROWS, TextRecords, index_text

__all__ = ["CSVData", "CSVSerializer", "field_of", "fields", "index_csv", "typed_fields"]


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


@final
class CSVSerializer:
    """Writes a flow of numbers, text, booleans and None as a table and reads the same values.

    Text that looks like another value is quoted, so that `load` distinguishes `1` from `"1"`, and None, an
    empty field, from `""`. Other programs read such a file like any other table.

    Example:
        >>> import tempfile
        >>> path = tempfile.mkdtemp() + "/points.csv"
        >>> CSVSerializer.save([[0.5, "1"], [None, "a"]], path, ["x", "name"])
        >>> list(CSVSerializer.load(path))
        [{'x': 0.5, 'name': '1'}, {'x': None, 'name': 'a'}]
    """

    @staticmethod
    def save(df: Any, path: URL, columns: Sequence[str], *, plain: bool = False) -> None:
        """Writes one pass of a flow, one row per datapoint.

        Args:
            df: the flow, a list or another iterable; datapoints are lists or tuples, or dicts of the columns.
                `load` yields dicts.
            path: path of the file. An existing file is replaced.
            columns: names of the columns, for the header.
            plain: whether NumPy scalars are also accepted, and written as the Python numbers they are read
                as.

        Raises:
            ArgumentError: the number of components differs from the number of columns, or the names are not
                distinct strings.
            OSError: the file cannot be written.
            SendError: a component is neither a number, text, a boolean nor None, or UTF-8 cannot encode it.
                An existing file is unchanged.
        """
        names = _checked_names(columns)
        plain = arguments.flag("plain", plain)
        with create_file(path) as file:
            file.write(",".join(map(field_of, names)).encode() + b"\n")
            for number, datapoint in enumerate(
                with_progress(as_dataflow(df), f"writing {os.path.basename(path)}")
            ):
                values = _components(datapoint, names, number)
                try:
                    row = ",".join([_field(name, value, plain) for name, value in zip(names, values)])
                    if not row:
                        raise SendError(f"component {names[0]!r}: a single None would be a blank line")
                except SendError as error:
                    raise SendError(f"{os.fspath(path)}, datapoint {number}, {error}") from error
                file.write(row.encode() + b"\n")

    @staticmethod
    def load(path: URL, shuffle: bool = False) -> CSVData:
        """Returns `CSVData(path, shuffle=shuffle, typed=True)`."""
        return CSVData(path, shuffle=shuffle, typed=True)


def _checked_names(columns: Sequence[str]) -> list[str]:
    names = list(columns)
    if not names or len(set(names)) < len(names) or not all(type(name) is str for name in names):
        raise ArgumentError(
            f"columns is a list of distinct strings for the header; received {shown(names, 100)}"
        )
    try:
        "".join(names).encode()
    except UnicodeEncodeError as error:
        raise ArgumentError(f"columns has a name that UTF-8 cannot encode: {error}") from error
    return names


def _components(datapoint: Any, names: list[str], number: int) -> list[Any]:
    if isinstance(datapoint, dict) and datapoint.keys() == set(names):
        return [datapoint[name] for name in names]
    if not isinstance(datapoint, (list, tuple)) or len(datapoint) != len(names):
        raise ArgumentError(f"datapoint {number} must have {names}; received {shown(datapoint, 100)}")
    return list(datapoint)


def _field(name: str, value: Any, plain: bool) -> str:
    try:
        return field_of(plain_scalar(value) if plain else value)
    except (TypeError, ValueError) as error:
        raise SendError(f"component {name!r}: CSV cannot hold {shown(value)}: {error}") from error


_BEGINNINGS = frozenset("-0123456789inTF")  # first characters of numbers, booleans, inf and nan
_DIGITS = re.compile("-?[0-9]+")
_SPECIAL = re.compile('[",\r\n\ufeff]')


def fields(text: str, delimiter: str) -> list[str]:
    """Returns the texts of the fields of a row, with the rules of Python's `csv`, but of any length.

    Args:
        text: text of the row, without the end of the line.
        delimiter: one character.

    Raises:
        FormatError: a quote is unbalanced, or a line ends outside quotes.

    Example:
        >>> fields('a,"b, ""c"" ",', ",")
        ['a', 'b, "c" ', '']
    """
    if _is_simple(text):
        return text.split(delimiter)
    return [value for value, _ in _split(text, delimiter)]


def typed_fields(text: str, delimiter: str) -> list[Any]:
    """Returns the values of the fields of a row written with `field_of`.

    Raises:
        FormatError: as for `fields`.

    Example:
        >>> typed_fields('1,"1",1.0,True,,"",007,a', ",")
        [1, '1', 1.0, True, None, '', '007', 'a']
    """
    if _is_simple(text):
        return [_value_of(value) for value in text.split(delimiter)]
    return [value if quoted else _value_of(value) for value, quoted in _split(text, delimiter)]


def _is_simple(text: str) -> bool:
    return '"' not in text and "\n" not in text and "\r" not in text


def field_of(value: Any) -> str:
    """Returns the text of a value in a row; quotes text that would otherwise be read as another value.

    Raises:
        TypeError: a row cannot hold such a value.
        ValueError: the value is text that UTF-8 cannot encode, or an integer with too many digits for Python.
    """
    if value is None:
        return ""
    if type(value) in (bool, int, float):
        return repr(value)
    if type(value) is not str:
        raise TypeError(f"a row holds numbers, text, booleans and None; received a {type(value).__name__}")
    value.encode()
    if _SPECIAL.search(value) or type(_value_of(value)) is not str:
        return '"' + value.replace('"', '""') + '"'
    return value


def _value_of(text: str) -> Any:
    """Returns the value of a text without quotes: the Python value with this text, else the text itself."""
    if not text:
        return None
    if text[0] not in _BEGINNINGS:
        return text
    if text in ("True", "False"):
        return text == "True"
    kind = int if _DIGITS.fullmatch(text) else float
    try:
        value = kind(text)
        return value if repr(value) == text else text
    except ValueError:
        return text


@cache
def _pattern(delimiter: str) -> re.Pattern[str]:
    one = re.escape(delimiter)
    # Text may follow the closing quote, as in Python's csv; a quote there, or within a field, is a literal.
    return re.compile(
        rf'(?:"([^"]*(?:""[^"]*)*)"([^{one}\r\n]*)|((?:[^{one}"\r\n][^{one}\r\n]*)?))({one}|\Z)'
    )


def _split(text: str, delimiter: str) -> Sequence[tuple[str, bool]]:
    found, at, match = _pattern(delimiter), 0, None
    parts = []
    while match is None or match[4]:
        match = found.match(text, at)
        if match is None:
            raise FormatError(
                f"unbalanced quote: {text:.60}" if '"' in text else f"a line ends within it: {text:.60!r}"
            )
        at = match.end()
        quoted = match[1] is not None
        parts.append((match[1].replace('""', '"') + match[2] if quoted else match[3], quoted))
    return parts
