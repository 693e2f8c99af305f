"""`JSONLData` and `JSONLSerializer`: a line of JSON for each datapoint."""

from __future__ import annotations

import json
import os
from typing import Any, final

import numpy as np

from ..._errors import FormatError, SendError
from ...sources._as_dataflow import as_dataflow
from ...storage import URL, create_file
from .._progress import with_progress
from .._record_flow import RecordFlow
from ._text_records import LINES, TextRecords, index_text

__all__ = ["JSONLData", "JSONLSerializer", "index_jsonl"]


@final
class JSONLData(RecordFlow):
    """Yields the lines of a file of JSON; addressable.

    Where each line begins is read from the index beside the file, if `index_jsonl` has written one; else the
    file is read for it when the flow is made.

    Args:
        path: of the file, in UTF-8; each line is an object, which is a datapoint that is a dict, or an array,
            which is one that is a list.
        shuffle: whether each epoch has an order of its own.

    Raises:
        OSError: the file is missing, or may not be read.
        FormatError: the index is damaged; a pass raises it for a line that is neither.

    Example:
        >>> import tempfile
        >>> path = tempfile.mkdtemp() + "/words.jsonl"
        >>> JSONLSerializer.save([{"text": "one", "label": 1}, {"text": "two", "label": 2}], path)
        >>> JSONLData(path).datapoint(0, 1)
        {'text': 'two', 'label': 2}
    """

    _holds = ()
    _steady = True

    def __init__(self, path: URL, shuffle: bool = False) -> None:
        """Finds the lines."""
        super().__init__(TextRecords(path, _parsed, LINES), shuffle)


@final
class JSONLSerializer:
    """Writes a flow as lines of JSON, and reads it; arrays become lists, and stay lists."""

    @staticmethod
    def save(df: Any, path: URL) -> None:
        """Writes one pass of a flow, a line for each datapoint.

        Args:
            df: the flow, or what can stand in its place.
            path: of the file. One that exists is replaced.

        Raises:
            OSError: the file cannot be written.
            SendError: a datapoint holds what JSON has not, such as bytes or a number that is not finite.
        """
        with create_file(path) as file:
            for number, datapoint in enumerate(
                with_progress(as_dataflow(df), f"writing {os.path.basename(path)}")
            ):
                try:
                    line = json.dumps(datapoint, default=_plain, allow_nan=False, ensure_ascii=False)
                except (TypeError, ValueError) as error:
                    raise SendError(
                        f"{os.fspath(path)}, datapoint {number}: JSON cannot hold it: {error}"
                    ) from error
                file.write(line.encode() + b"\n")

    @staticmethod
    def load(path: URL, shuffle: bool = False) -> JSONLData:
        """Returns `JSONLData(path, shuffle)`."""
        return JSONLData(path, shuffle)


def index_jsonl(path: URL) -> int:
    """Writes the index of a file of JSON, `<path>.index`, so that flows over the file are made at once.

    The index says its format and version, and size, time and last bytes of the file, so that a flow notices
    if the file has been replaced since.

    Args:
        path: of the file.

    Returns:
        the number of lines.

    Raises:
        OSError: the file cannot be read, or the index cannot be written.

    Example:
        >>> import tempfile
        >>> path = tempfile.mkdtemp() + "/words.jsonl"
        >>> JSONLSerializer.save([{"text": "one"}, {"text": "two"}], path)
        >>> index_jsonl(path)
        2
    """
    return index_text(path, LINES)


def _parsed(line: str) -> Any:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"the line is no JSON: {error}") from error
    if not isinstance(value, (dict, list)):
        raise FormatError(f"the line is neither an object nor an array of JSON: {line:.60}")
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    raise TypeError(f"a value of {type(value).__name__}")
