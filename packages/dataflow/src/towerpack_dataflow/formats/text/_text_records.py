"""The records of a text file and their offsets: one line each, or several lines joined by quotes."""

from __future__ import annotations

import bz2
import codecs
import gzip
import lzma
import os
import secrets
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, final

import numpy as np
import numpy.typing as npt

from ..._errors import ArgumentError, FormatError
from ...storage import URL, StoredFile, StoredStream, UrlCache, is_local, open_url
from .._offset_index import IndexKind, load_index, store_index
from .._record_flow import OpenedRecords, open_same

__all__ = [
    "LINES",
    "MARK",
    "ROWS",
    "TextKind",
    "TextRecords",
    "byte_encoding",
    "index_text",
    "open_text",
    "record_offsets",
    "refuse_copy",
]

_CHUNK: Final = 2**20
_ENDS_EARLY = (EOFError, OSError, zlib.error, lzma.LZMAError, ValueError)


def byte_encoding(encoding: str) -> str | None:
    """Returns the name of an encoding in which bytes up to 127 always are ASCII characters; else None.

    In such an encoding, records are found without decoding the file: UTF-8, Latin-1, the code pages of
    Windows. UTF-16 is not one of them.

    Raises:
        ArgumentError: the text encoding is unknown to Python.

    Example:
        >>> byte_encoding("latin1"), byte_encoding("utf-8-sig"), byte_encoding("utf-16")
        ('iso8859-1', 'utf-8', None)
    """
    try:
        name = codecs.lookup(encoding).name
        "".encode(name)  # rejected by codecs of bytes
    except (LookupError, TypeError, ValueError):
        raise ArgumentError(
            f"encoding is a text encoding of Python, such as 'cp1252'; received {encoding!r}"
        ) from None
    if name == "utf-8-sig":
        return "utf-8"  # the byte order mark is ignored in any case
    try:
        same = all(bytes([code]).decode(name, "replace") == chr(code) for code in range(128))
    except UnicodeError:  # such as idna, which has no replacement character
        same = False
    return name if same else None


def open_text(url: URL, encoding: str, reader: str, opened: Callable[[URL], StoredFile]) -> StoredFile:
    """Opens a text file, or a copy in the cache if it is compressed or must be decoded as a whole.

    Args:
        url: URL of the file; `.gz`, `.bz2` and `.xz` are identified by the first bytes.
        encoding: encoding of the text. A copy of a file without a `byte_encoding` is in UTF-8.
        reader: a name of the reader, which owns a copy if the server does not distinguish versions.
        opened: opens the file itself.

    Raises:
        FormatError: the compressed bytes are truncated or damaged, or the text does not have this encoding.
        StorageError: the copy exceeds the limit of the cache.
        OSError: the file cannot be read, or the copy cannot be written.
    """
    file = opened(url)
    decompress = _decompressor(file)
    if decompress is None and byte_encoding(encoding):
        return file
    with file:
        name = os.path.abspath(file.name) if is_local(file.name) else file.name
        version = f"{file.version} as {encoding}" if file.lasting else f"{file.version} of {reader}"
        version = f"{version} at {file.lasting_url}"  # the name has no query
        copy = UrlCache().made(name, version, lambda: _chunks(file, decompress, encoding))
    return open_url(copy)


def refuse_copy(url: URL, encoding: str) -> None:
    """Checks that a file is read directly, so that an index of it is useful.

    Raises:
        ArgumentError: the file is compressed, or in an encoding such as UTF-16.
    """
    with open_url(url) as file:
        if _decompressor(file) or not byte_encoding(encoding):
            raise ArgumentError(
                f"{file.name} is compressed or in {encoding}, so that a copy in the cache is read, and an "
                "index of it would be useless; decompress it, or write it in UTF-8"
            )


def _decompressor(file: StoredFile) -> Callable[[Any], Any] | None:
    begin = bytes(file.read(0, min(file.size, 10)))
    if begin.startswith(b"\x1f\x8b"):
        return lambda stream: gzip.open(stream)
    if begin.startswith(b"BZh") and begin[4:] == b"1AY&SY":
        return lambda stream: bz2.open(stream)
    if begin.startswith(b"\xfd7zXZ\0"):
        return lambda stream: lzma.open(stream)
    return None


def _chunks(file: StoredFile, decompress: Callable[[Any], Any] | None, encoding: str) -> Iterator[bytes]:
    """Yields the bytes of the copy."""
    decoder = None if byte_encoding(encoding) else codecs.getincrementaldecoder(encoding)()
    stream: Any = StoredStream(file)
    with stream if decompress is None else decompress(stream) as content:
        while True:
            try:
                chunk = content.read(_CHUNK)
                text = decoder.decode(chunk, not chunk) if decoder else ""
            except UnicodeError as error:
                raise FormatError(f"{file.name} is not in {encoding}: {error}") from error
            except _ENDS_EARLY as error:
                if decompress is None:
                    raise
                raise FormatError(
                    f"{file.name}: its compressed bytes are truncated or damaged: {error}"
                ) from error
            yield text.encode() if decoder else chunk
            if not chunk:
                return


_TOGETHER: Final = 2**20  # bytes of records to read at a time in sequential reads
_OTHER_FILE: Final = "it does not {} with a line: the index belongs to another file; write it again"


@final
class TextRecords(OpenedRecords):
    """Reads records of a text file by their offsets, from its index or from a scan of the file.

    Args:
        path: path of the file. If it is compressed, or in an encoding such as UTF-16, a copy in the cache is
            read.
        decode: creates a datapoint from a record's text, without the end of the line.
        kind: `LINES` or `ROWS`.
        encoding: encoding of the text.
        skip: number of records to skip at the beginning, such as the names of columns.

    Attributes:
        name: name of the file, without credentials.
        decode: as above.
        skipped: texts of the skipped records.

    Raises:
        ArgumentError: the encoding is unknown.
        FormatError: the last record ends inside quotes, or the index is damaged.
        OSError: the file is missing or not readable.
    """

    def __init__(
        self, path: URL, decode: Callable[[str], Any], kind: TextKind, encoding: str = "utf-8", skip: int = 0
    ) -> None:
        """Reads the index, or scans the file once."""
        super().__init__(path)
        self.name = self._name
        self.decode, self._kind, self._encoding = decode, kind, encoding
        self._reader = secrets.token_hex(8)
        self._of_bytes = byte_encoding(encoding) or "utf-8"
        self._version, self._skip = "", 0
        with self._open() as file:
            is_copy = file.name != self.name
            offsets = None if is_copy else load_index(file, self._path, kind.index)
            self._offsets = record_offsets(file, kind, self.name) if offsets is None else offsets
            self._skip = min(skip, len(self._offsets) - 1)
            self.skipped = [*self._texts(file, 0, self._skip)]
        self.__qualname__ = f"{self.name} of {len(self)} records"

    def __len__(self) -> int:
        """Returns the number of records."""
        return len(self._offsets) - 1 - self._skip

    def rest(self, start: int) -> Iterator[Any]:
        """Yields the records from number `start` on; reads many at a time."""
        first, end = start + self._skip, len(self._offsets) - 1
        while first < end:
            last = int(np.searchsorted(self._offsets, self._offsets[first] + _TOGETHER, "right")) - 1
            last = max(last, first + 1)
            yield from self._decoded(first, last)
            first = last

    def _record(self, index: int) -> Any:
        first = index + self._skip
        return next(self._decoded(first, first + 1))

    def _decoded(self, first: int, last: int) -> Iterator[Any]:
        for number, text in enumerate(self._texts(self._file(), first, last), first):
            try:
                yield self.decode(text)
            except FormatError as error:
                raise self._record_error(number, error) from error

    def _texts(self, file: StoredFile, first: int, last: int) -> Iterator[str]:
        """Yields the texts of consecutive records in the file."""
        ends = self._offsets[first : last + 1].tolist()
        begin = max(ends[0] - 1, 0)  # with the end of the previous line
        content = bytes(file.read(begin, ends[-1] - begin))
        edge = content[: ends[0] - begin]
        for number, (low, high) in enumerate(pairwise(ends), first):
            record = content[low - begin : high - begin]
            try:
                self._check_edges(edge, record, number)
                if not low and self._of_bytes == "utf-8":
                    record = record.removeprefix(MARK)
                yield str(record, self._of_bytes).strip("\r\n")
            except (FormatError, UnicodeDecodeError) as error:
                raise self._record_error(number, error) from error
            edge = record[-1:]

    def _check_edges(self, before: bytes, record: bytes, number: int) -> None:
        ends = self._kind.ends
        if before and before not in ends:
            raise FormatError(_OTHER_FILE.format("begin"))
        if record[-1] not in ends and number < len(self._offsets) - 2:
            raise FormatError(_OTHER_FILE.format("end"))

    def _record_error(self, number: int, error: Exception) -> FormatError:
        record = f"record {number - self._skip}" if number >= self._skip else "the header"
        return FormatError(f"{self.name}, {record}, at byte {self._offsets[number]}: {error}")

    def _open(self) -> StoredFile:
        return open_text(self._path, self._encoding, self._reader, self._original)

    def _original(self, url: URL) -> StoredFile:
        if self._version:
            return open_same(self._path, self._version)
        file = open_url(url)
        self._version = file.version
        return file


def index_text(path: URL, kind: TextKind, encoding: str) -> int:
    """Writes the index of a text file, `<path>.index`; returns the number of its records.

    Raises:
        ArgumentError: the encoding is unknown, or a copy of the file is read, which has no index.
        FormatError: the last record ends inside quotes.
        OSError: the file cannot be read, or the index cannot be written.
    """
    refuse_copy(path, encoding)
    with open_url(path) as file:
        offsets = record_offsets(file, kind, file.name)
        store_index(file, kind.index, offsets)
    return len(offsets) - 1


MARK: Final = codecs.BOM_UTF8

_BLOCK: Final = 2**24
_NEWLINE, _RETURN, _QUOTE = b'\n\r"'
_SPACES: Final = np.frombuffer(b" \t\r\n\v\f", np.uint8)


@final
@dataclass(frozen=True)
class TextKind:
    """The kind of the records of a text file.

    Attributes:
        index: kind of the index of such a file. Its name changes with the definition of a record.
        ends: bytes that end a record.
        quoted: whether quotes join lines.
    """

    index: IndexKind
    ends: bytes
    quoted: bool


LINES = TextKind(IndexKind(b"lines 2", 1, "index_jsonl(path)"), b"\n", quoted=False)
ROWS = TextKind(IndexKind(b"rows 2", 1, "index_csv(path)"), b"\r\n", quoted=True)


def record_offsets(file: StoredFile, kind: TextKind, name: str) -> npt.NDArray[np.int64]:
    """Returns the start of each record and the size of the file. A record includes the blank lines after it.

    Args:
        file: the text, in an encoding with line ends and quotes as ASCII bytes.
        kind: kind of its records.
        name: name of the file, for messages.

    Raises:
        FormatError: the last record ends inside quotes.
    """
    found: list[npt.NDArray[np.int64]] = []
    blank = [np.array([True])]  # unknown
    within = 0
    for begin in range(0, file.size, _BLOCK):
        # One byte more shows whether a newline follows a return, and the first byte of the next record.
        values = np.frombuffer(file.read(begin, min(_BLOCK + 1, file.size - begin)), np.uint8)
        ends, within = _ends(values[:_BLOCK], values, within, kind)
        found.append(ends + begin)
        blank.append(np.isin(values[ends[ends < len(values)]], _SPACES))
    ends = np.concatenate([np.zeros(1, np.int64), *found])
    if within:
        raise FormatError(f"{name}: its last record, {len(ends) - 1}, ends inside quotes: it is truncated")
    if ends[-1] != file.size:
        ends = np.append(ends, np.int64(file.size))
    return _without_blank(file, ends, np.concatenate(blank), kind)


def _ends(
    block: np.ndarray, values: np.ndarray, within: int, kind: TextKind
) -> tuple[npt.NDArray[np.int64], int]:
    """Returns the ends of records in a block, and whether the block ends inside quotes."""
    is_end = block == _NEWLINE
    if kind.quoted:
        returns = np.flatnonzero(block == _RETURN)
        followed = returns[returns + 1 < len(values)]
        is_end[returns] = True
        is_end[followed[values[followed + 1] == _NEWLINE]] = False
    ends = np.flatnonzero(is_end)
    if kind.quoted:
        quotes = np.flatnonzero(block == _QUOTE)
        # A line end also ends a record if an even number of quotes precedes it in the file.
        ends = ends[(np.searchsorted(quotes, ends) + within) % 2 == 0]
        within = (within + len(quotes)) % 2
    return ends + 1, within


def _without_blank(
    file: StoredFile, offsets: npt.NDArray[np.int64], begins_blank: np.ndarray, kind: TextKind
) -> npt.NDArray[np.int64]:
    """Removes the offsets of blank lines, which become a part of the previous record."""
    count = len(offsets) - 1
    candidates = np.flatnonzero(begins_blank[:count]).tolist()
    blank = np.zeros(count, bool)
    for number in candidates:
        blank[number] = _is_blank(file, int(offsets[number]), int(offsets[number + 1]), kind)
    if not blank.any():
        return offsets
    kept = np.append(True, np.append(~blank[1:], True))
    first = int(np.argmin(blank)) if not blank.all() else count
    kept[1 : first + 1] = False
    remaining: npt.NDArray[np.int64] = offsets[kept]
    return remaining


def _is_blank(file: StoredFile, begin: int, end: int, kind: TextKind) -> bool:
    content = bytes(file.read(begin, end - begin))
    if not begin:
        content = content.removeprefix(MARK)
    return not content.strip(kind.ends if kind.quoted else None)
