"""The records of a text file: a line each, or several lines that quotes hold together."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from functools import partial
from typing import Any, final

from ..._errors import FormatError
from ...storage import URL, StoredFile, open_url
from .._offset_index import load_index, store_index
from .._opened_records import OpenedRecords, open_same
from ._record_offsets import LINES, MARK, ROWS, TextKind, record_offsets
from ._text_file import byte_encoding, open_text, refuse_copy

__all__ = ["LINES", "ROWS", "TextRecords", "index_text"]


@final
class TextRecords(OpenedRecords):
    """Reads records of a text file, by where each of them begins: from its index, else from the file itself.

    Args:
        path: of the file. If it is compressed, or in an encoding such as UTF-16, a copy in the cache is read.
        decode: makes a datapoint of a record's text, without the end of the line.
        kind: `LINES` or `ROWS`.
        encoding: of the text.
        skip: how many records at the beginning are none, such as the names of columns.

    Attributes:
        name: of the file, without credentials.
        decode: as above.
        skipped: the texts of the records at the beginning.

    Raises:
        ArgumentError: there is no such encoding.
        FormatError: the last record ends inside of quotes, or the index is damaged.
        OSError: the file is missing, or may not be read.
    """

    def __init__(
        self, path: URL, decode: Callable[[str], Any], kind: TextKind, encoding: str = "utf-8", skip: int = 0
    ) -> None:
        """Reads the index, or the file once."""
        super().__init__(path)
        self.name = self._name
        self.decode, self._kind, self._encoding = decode, kind, encoding
        self._reader = secrets.token_hex(8)
        self._of_bytes = byte_encoding(encoding) or "utf-8"
        with open_url(path) as file:
            self._version = file.version
        with self._open() as file:
            is_copy = file.name != self.name
            offsets = None if is_copy else load_index(file, self._path, kind.index)
            self._offsets = record_offsets(file, kind, self.name) if offsets is None else offsets
            self.skipped = [self._text(file, number) for number in range(min(skip, len(self._offsets) - 1))]
        self._skip = len(self.skipped)
        self.__qualname__ = f"{self.name} of {len(self)} records"

    def __len__(self) -> int:
        """Returns the number of records."""
        return len(self._offsets) - 1 - self._skip

    def _record(self, index: int) -> Any:
        number = index + self._skip
        text = self._text(self._file(), number)
        try:
            return self.decode(text)
        except FormatError as error:
            raise self._blamed(number, error) from error

    def _text(self, file: StoredFile, number: int) -> str:
        begin, end = self._offsets[number : number + 2].tolist()
        ahead = min(begin, 1)
        content = bytes(file.read(begin - ahead, end - begin + ahead))
        try:
            is_last = number == len(self._offsets) - 2
            for is_edge, side, byte in ((not ahead, "begin", content[0]), (is_last, "end", content[-1])):
                if not is_edge and byte not in self._kind.ends:
                    raise FormatError(
                        f"it does not {side} with a line: the index is of another file; write it again"
                    )
            if not begin and self._of_bytes == "utf-8":
                content = content.removeprefix(MARK)
            return str(content[ahead:], self._of_bytes).strip("\r\n")
        except (FormatError, UnicodeDecodeError) as error:
            raise self._blamed(number, error) from error

    def _blamed(self, number: int, error: Exception) -> FormatError:
        begin = self._offsets[number]
        return FormatError(f"{self.name}, record {number - self._skip}, at byte {begin}: {error}")

    def _open(self) -> StoredFile:
        opened = partial(open_same, version=self._version)
        return open_text(self._path, self._encoding, self._reader, opened)


def index_text(path: URL, kind: TextKind, encoding: str) -> int:
    """Writes the index of a text file, `<path>.index`; returns the number of its records.

    Raises:
        ArgumentError: there is no such encoding, or a copy of the file is read, to which no index belongs.
        FormatError: the last record ends inside of quotes.
        OSError: the file cannot be read, or the index cannot be written.
    """
    refuse_copy(path, encoding)
    with open_url(path) as file:
        offsets = record_offsets(file, kind, file.name)
        store_index(file, kind.index, offsets)
    return len(offsets) - 1
