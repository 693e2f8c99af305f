"""The records of a text file: a line each, or what quotes hold together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import numpy as np
import numpy.typing as npt

from ..._errors import FormatError
from ...storage import URL, StoredFile, open_url
from .._offset_index import IndexKind, load_index, store_index
from .._opened_records import OpenedRecords, open_same

__all__ = ["LINES", "ROWS", "TextRecords", "index_text"]

LINES = IndexKind(b"lines", 1, "index_jsonl(path)")
ROWS = IndexKind(b"rows", 1, "index_csv(path)")  # a line may end inside of quotes, and the record go on

_BLOCK = 2**24
_NEWLINE, _QUOTE = 10, 34


@final
class TextRecords(OpenedRecords):
    """Reads records of a text file, by where each of them begins: from its index, else from the file itself.

    Args:
        path: of the file, in UTF-8.
        decode: makes a datapoint of a record's text, without the end of the line.
        kind: `LINES` or `ROWS`.
        skip: how many records at the beginning are none, such as the names of columns.

    Raises:
        FormatError: the last record ends inside of quotes, or the index is damaged.
        OSError: the file is missing, or may not be read.
    """

    def __init__(self, path: URL, decode: Callable[[str], Any], kind: IndexKind, skip: int = 0) -> None:
        """Reads the index, or the file once."""
        super().__init__(path)
        self._decode = decode
        with open_url(path) as file:
            self._version = file.version
            offsets = load_index(file, self._path, kind)
            ends = (_offsets(file, kind) if offsets is None else offsets)[1:]
        self._first = int(ends[skip - 1]) if 0 < skip <= len(ends) else 0
        self._ends = ends[skip:]
        self.__qualname__ = f"{self._name} of {len(self)} records"

    def __len__(self) -> int:
        """Returns the number of records."""
        return len(self._ends)

    def _record(self, index: int) -> Any:
        begin = int(self._ends[index - 1]) if index else self._first
        end = int(self._ends[index])
        content = self._file().read(begin, end - begin)
        try:
            if content[-1] != _NEWLINE and index < len(self) - 1:
                raise FormatError("it does not end with a line: the index is of another file; write it again")
            return self._decode(str(content, "utf-8").rstrip("\r\n"))
        except (FormatError, UnicodeDecodeError) as error:
            raise FormatError(f"{self._name}, record {index}, at byte {begin}: {error}") from error

    def _open(self) -> StoredFile:
        return open_same(self._path, self._version)


def index_text(path: URL, kind: IndexKind) -> int:
    """Writes the index of a text file, `<path>.index`; returns the number of its records.

    Raises:
        FormatError: the last record ends inside of quotes.
        OSError: the file cannot be read, or the index cannot be written.
    """
    with open_url(path) as file:
        offsets = _offsets(file, kind)
        store_index(file, kind, offsets)
    return len(offsets) - 1


def _offsets(file: StoredFile, kind: IndexKind) -> npt.NDArray[np.int64]:
    """Returns where each record begins, and the size of the file."""
    found, within = [np.zeros(1, np.int64)], 0
    for begin in range(0, file.size, _BLOCK):
        values = np.frombuffer(file.read(begin, min(_BLOCK, file.size - begin)), np.uint8)
        newlines = np.flatnonzero(values == _NEWLINE)
        if kind is ROWS:
            quotes = np.flatnonzero(values == _QUOTE)
            # A newline ends a record if an even number of quotes came before it in the file.
            newlines = newlines[(np.searchsorted(quotes, newlines) + within) % 2 == 0]
            within = (within + len(quotes)) % 2
        found.append(newlines + (begin + 1))
    ends = np.concatenate(found).astype(np.int64)
    if within:
        raise FormatError(
            f"{file.name}: its last record, {len(ends) - 1}, ends inside of quotes: it is cut off"
        )
    if ends[-1] != file.size:
        ends = np.append(ends, np.int64(file.size))
    return ends
