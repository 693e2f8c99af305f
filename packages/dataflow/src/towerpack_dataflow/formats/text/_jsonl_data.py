"""`JSONLData` and `JSONLSerializer`: one line of JSON per datapoint."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any, final

from ... import _argument_checks as arguments
from ..._errors import FormatError, SendError
from ...sources._from_iterable import as_dataflow
from ...storage import URL, create_file
from .._plain_values import checked_value, shown, with_progress
from .._record_flow import RecordFlow
from ._text_records import LINES, TextRecords, index_text

__all__ = ["JSONLData", "JSONLSerializer", "index_jsonl"]


@final
class JSONLData(RecordFlow):
    """Yields the lines of a JSON Lines file; addressable.

    The start of each line is read from the index `<path>.index`, if written by `index_jsonl`; otherwise the
    file is scanned when the flow is created. Blank lines, and a byte order mark at the beginning, are
    ignored.

    Args:
        path: path of the file; each line is an object, which becomes a dict, or an array, which becomes a
            list. For a file compressed with gzip, bzip2 or xz, or in an encoding such as UTF-16, a decoded
            copy is stored in the cache of `local_path`.
        shuffle: whether each epoch draws its order.
        encoding: encoding of the text, such as "cp1252".

    Raises:
        ArgumentError: the encoding is unknown.
        OSError: the file is missing or not readable.
        FormatError: the index is damaged, or the file is compressed and damaged; or, while iterating, a line
            is neither an object nor an array, or has an object with two values of one name.

    Example:
        >>> import tempfile
        >>> path = tempfile.mkdtemp() + "/words.jsonl"
        >>> JSONLSerializer.save([{"text": "one", "label": 1}, {"text": "two", "label": 2}], path)
        >>> JSONLData(path).datapoint(0, 1)
        {'text': 'two', 'label': 2}
    """

    def __init__(self, path: URL, shuffle: bool = False, encoding: str = "utf-8") -> None:
        """Locates the lines."""
        super().__init__(TextRecords(path, _parsed, LINES, encoding), shuffle)


@final
class JSONLSerializer:
    """Writes a flow as JSON Lines and reads the same values; rejects values that would change.

    Example:
        >>> import tempfile
        >>> path = tempfile.mkdtemp() + "/words.jsonl"
        >>> JSONLSerializer.save([{"text": "one", "label": 1}, {"text": "two", "label": 2}], path)
        >>> list(JSONLSerializer.load(path))
        [{'text': 'one', 'label': 1}, {'text': 'two', 'label': 2}]
    """

    @staticmethod
    def save(df: Any, path: URL, *, plain: bool = False) -> None:
        """Writes one pass of a flow, one line per datapoint.

        Args:
            df: the flow, a list or another iterable; datapoints are lists, or dicts with strings as keys, of
                numbers, text, booleans, None, and lists and dicts of these.
            path: path of the file. An existing file is replaced.
            plain: whether NumPy arrays and scalars are also accepted, and written as the Python lists and
                numbers they are read as, and tuples as lists.

        Raises:
            OSError: the file cannot be written.
            SendError: a datapoint contains a value that JSON lacks, such as bytes or a number that is not
                finite, or one that would be read as another value. An existing file is unchanged.
        """
        plain = arguments.flag("plain", plain)
        with create_file(path) as file:
            for number, datapoint in enumerate(
                with_progress(as_dataflow(df), f"writing {os.path.basename(path)}")
            ):
                try:
                    file.write(_line(datapoint, plain))
                except _REFUSALS as error:
                    raise SendError(
                        f"{os.fspath(path)}, datapoint {number}: JSON cannot hold it: "
                        f"{_component(datapoint, plain)}{error}"
                    ) from error

    @staticmethod
    def load(path: URL, shuffle: bool = False) -> JSONLData:
        """Returns `JSONLData(path, shuffle)`."""
        return JSONLData(path, shuffle)


def index_jsonl(path: URL, encoding: str = "utf-8") -> int:
    """Writes the index of a JSON Lines file, `<path>.index`, so that flows over the file are created at once.

    The index records its format and version, and size, time and last bytes of the file, so that a flow
    detects a replaced file.

    Args:
        path: path of the file.
        encoding: encoding of the text.

    Returns:
        the number of lines, without blank ones.

    Raises:
        ArgumentError: the file is compressed, or in an encoding such as UTF-16, so that a copy of it is read;
            or the encoding is unknown.
        OSError: the file cannot be read, or the index cannot be written.

    Example:
        >>> import tempfile
        >>> path = tempfile.mkdtemp() + "/words.jsonl"
        >>> JSONLSerializer.save([{"text": "one"}, {"text": "two"}], path)
        >>> index_jsonl(path)
        2
    """
    return index_text(path, LINES, encoding)


_REFUSALS = (TypeError, ValueError, RecursionError)


def _line(datapoint: Any, plain: bool) -> bytes:
    value = checked_value(datapoint, plain)
    if not isinstance(value, (dict, list)):
        raise TypeError(f"a line is a list or a dict; received {shown(datapoint)}")
    return json.dumps(value, allow_nan=False, ensure_ascii=False).encode() + b"\n"


def _component(datapoint: Any, plain: bool) -> str:
    """Returns the name and value of the component that JSON cannot hold, for a message."""
    parts: Iterator[tuple[Any, Any]] = iter(())
    if isinstance(datapoint, (list, tuple)):
        parts = enumerate(datapoint)
    elif isinstance(datapoint, dict):
        parts = iter(datapoint.items())
    for name, part in parts:
        try:
            _line([part], plain)
        except _REFUSALS:
            return f"component {name!r}, {shown(part)}: "
    return ""


def _parsed(line: str) -> Any:
    try:
        value = _DECODER.decode(line)
    except (ValueError, RecursionError) as error:
        hint = "; its lines end with a return; use newlines instead" if "\r" in line else ""
        raise FormatError(f"the line is not JSON: {error}{hint}") from error
    if not isinstance(value, (dict, list)):
        raise FormatError(f"the line is neither a JSON object nor a JSON array: {line:.60}")
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"an object has two values named {shown(twice)}")
    return found


_DECODER = json.JSONDecoder(object_pairs_hook=_object)
