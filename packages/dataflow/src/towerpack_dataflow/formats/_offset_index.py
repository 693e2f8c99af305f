"""Start offsets of the records of a file, found once and stored in a file next to it."""

from __future__ import annotations

import logging
import os
import struct
import zlib
from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar, final

import numpy as np

from .._errors import FormatError
from ..storage import StoredFile, UrlCache, create_file, is_local, open_url

__all__ = ["INDEX_VERSION", "IndexKind", "load_index", "parse_index", "read_index_beside", "store_index"]

_log = logging.getLogger("towerpack_dataflow")

_Index = TypeVar("_Index")


def read_index_beside(
    file: StoredFile,
    url: str,
    parse: Callable[[StoredFile], _Index | None],
    function: str,
    cache: UrlCache | None = None,
) -> _Index | None:
    """Reads `<file>.index`; returns `None` without a usable index.

    An index of another version, or of an earlier state of the file, is ignored and logged. A file with a
    query in its URL, such as a signed one, is assumed to have none.

    Args:
        file: the data file.
        url: URL of the file, with credentials.
        parse: decodes an index; returns `None` for another version or data file.
        function: the call that writes such an index.
        cache: cache for a remote index.

    Raises:
        FormatError: `parse` finds the index damaged.
        StorageError: the index cannot be reached.
    """
    if not is_local(url) and "?" in url:
        return None
    try:
        with open_url(f"{url}.index", cache) as stored:
            index = parse(stored)
    except (FileNotFoundError, PermissionError):
        return None
    if index is None:
        _log.warning(
            "The index %s.index is outdated, or has another version; scanning %s instead. Rebuild it with %s",
            file.name,
            os.path.basename(file.name),
            function,
        )
    return index


INDEX_VERSION: Final = 2

_MAGIC = b"TWPKIDX\n"
# Magic, version, CRC32 of the offsets; kind of records; of the data file its size, time (ns, -1 if unknown)
# and the CRC32 of its last bytes; number of records.
_HEADER = struct.Struct("<8sII8sQqIQ")
_LAST = 2**12  # bytes at the end of a data file used to identify it


@final
class IndexKind(NamedTuple):
    """The kind of an index.

    Attributes:
        name: name of the kind of records, up to eight bytes.
        least: smallest number of bytes of a record.
        function: the call that writes such an index.
    """

    name: bytes
    least: int
    function: str


def store_index(file: StoredFile, kind: IndexKind, offsets: np.ndarray) -> None:
    """Writes `<file>.index` atomically.

    Args:
        file: the local data file.
        kind: kind of its records.
        offsets: the start of each record, and the size of the file.

    Raises:
        OSError: the index cannot be written.
    """
    table = offsets.astype("<i8").tobytes()
    head = _HEADER.pack(
        _MAGIC,
        INDEX_VERSION,
        zlib.crc32(table),
        kind.name,
        file.size,
        _modified(file.name),
        _last_bytes(file),
        len(offsets) - 1,
    )
    with create_file(f"{file.name}.index") as out:
        out.write(head + table)


def load_index(file: StoredFile, url: str, kind: IndexKind) -> np.ndarray | None:
    """Returns the start of each record and the size of the file; `None` without a usable index.

    Args:
        file: the data file.
        url: URL of the data file, with credentials.
        kind: kind of its records.

    Raises:
        FormatError: the index is damaged.
        StorageError: the index cannot be reached.
    """

    def parse(stored: StoredFile) -> np.ndarray | None:
        try:
            return parse_index(bytes(stored.read()), file, kind)
        except FormatError as error:
            raise FormatError(f"{file.name}.index: {error}") from error

    return read_index_beside(file, url, parse, kind.function)


def parse_index(raw: bytes, file: StoredFile, kind: IndexKind) -> np.ndarray | None:
    """Decodes an index file; returns `None` for another version, kind or data file.

    A remote copy of the data file has another modification time than the indexed file; in that case the size
    and the last bytes are compared.

    Args:
        raw: bytes of the index.
        file: the data file.
        kind: kind of its records.

    Raises:
        FormatError: the bytes are not an index, or are damaged.
    """
    if len(raw) < _HEADER.size or not raw.startswith(_MAGIC):
        raise FormatError(f"the file is not an index: it does not begin with {_MAGIC!r}; remove it")
    _, version, crc32, name, size, time, last, count = _HEADER.unpack_from(raw)
    if version != INDEX_VERSION:
        return None
    table = memoryview(raw)[_HEADER.size :]
    if len(table) != 8 * (count + 1) or zlib.crc32(table) != crc32:
        raise FormatError(f"the index is damaged; remove it, and write it again with {kind.function}")
    same_time = -1 in (time, modified := _modified(file.name)) or time == modified
    if name.rstrip(b"\0") != kind.name or size != file.size or not same_time or last != _last_bytes(file):
        return None
    offsets = np.frombuffer(table, "<i8").astype(np.int64)
    # A text file may consist of blank lines, which are not records.
    is_whole = offsets[-1] == size or (not count and kind.least == 1)
    if offsets[0] != 0 or not is_whole or (count and np.diff(offsets).min() < kind.least):
        raise FormatError("the index has records with overlaps or gaps; remove it, and write it again")
    return offsets


def _last_bytes(file: StoredFile) -> int:
    size = min(_LAST, file.size)
    return zlib.crc32(file.read(file.size - size, size))


def _modified(path: str) -> int:
    """Returns the modification time of a local file, in ns; -1 for a remote file."""
    try:
        return os.stat(path).st_mtime_ns if is_local(path) else -1
    except OSError:
        return -1
