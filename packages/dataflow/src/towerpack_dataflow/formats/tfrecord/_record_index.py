"""Where the records of a TFRecord file begin: found once, and kept in a file beside it."""

from __future__ import annotations

import logging
import os
import struct
import zlib
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ..._errors import FormatError
from ...storage import StoredFile, create_file, open_url
from ._framing import FRAME_BYTES, scan

__all__ = ["INDEX_VERSION", "index_path", "load_index", "parse_index", "store_index"]

_log = logging.getLogger("towerpack_dataflow")

INDEX_VERSION: Final = 1

_MAGIC = b"TWPKIDX\n"
# Magic, version, CRC32 of the offsets; size and time of the data file (ns, -1 if unknown); number of records.
_HEADER = struct.Struct("<8sII QqQ")


def index_path(path: str | os.PathLike[str]) -> str:
    """Returns the name of the index file of a data file."""
    return f"{os.fspath(path)}.index"


def store_index(path: str | os.PathLike[str], offsets: np.ndarray) -> None:
    """Writes the index of a file, as a whole or not at all.

    Args:
        path: of the data file.
        offsets: where each record begins, and the size of the file.

    Raises:
        OSError: it cannot be written.
    """
    table = offsets.astype("<i8").tobytes()
    head = _HEADER.pack(
        _MAGIC,
        INDEX_VERSION,
        zlib.crc32(table),
        int(offsets[-1]),
        _modified(os.fspath(path)),
        len(offsets) - 1,
    )
    with create_file(index_path(path)) as file:
        file.write(head + table)


def load_index(file: StoredFile, url: str, crc32c: Callable[[Any], int]) -> np.ndarray:
    """Returns where each record begins, and the size of the file: from its index, else from the file itself.

    An index of another version, or of a file that has been replaced since, is left alone, and logged. A file
    whose URL has a query, as a signed one has, is taken to have none.

    Args:
        file: the data file.
        url: of it, with credentials.
        crc32c: computes checksums.

    Raises:
        FormatError: the index is damaged; or there is none, and the file is.
    """
    if not os.path.isabs(file.name) and "?" in url:
        return scan(file, crc32c)
    try:
        with open_url(index_path(url)) as stored:
            raw = bytes(stored.read())
    except (FileNotFoundError, PermissionError):
        return scan(file, crc32c)
    try:
        offsets = parse_index(raw, file.size, _modified(file.name))
    except FormatError as error:
        raise FormatError(f"{index_path(file.name)}: {error}") from error
    if offsets is None:
        _log.warning(
            "%s is of another version, or of another file than %s is now; the file is read for it. "
            "index_tfrecord(path) writes it again",
            index_path(file.name),
            file.name,
        )
        return scan(file, crc32c)
    return offsets


def parse_index(raw: bytes, size: int, modified: int) -> np.ndarray | None:
    """Decodes an index file; returns `None` if it is of another version or another data file.

    Args:
        raw: its bytes.
        size: of the data file.
        modified: when the data file was, in ns; -1 if that is not known.

    Raises:
        FormatError: the bytes are no index, or are damaged.
    """
    if len(raw) < _HEADER.size or not raw.startswith(_MAGIC):
        raise FormatError(f"the file is no index: it does not begin with {_MAGIC!r}; remove it")
    _, version, crc32, indexed_size, indexed_time, count = _HEADER.unpack_from(raw)
    if version != INDEX_VERSION:
        return None
    table = memoryview(raw)[_HEADER.size :]
    if len(table) != 8 * (count + 1) or zlib.crc32(table) != crc32:
        raise FormatError("the index is damaged; remove it, and write it again by index_tfrecord(path)")
    if indexed_size != size or (-1 not in (indexed_time, modified) and indexed_time != modified):
        return None
    offsets = np.frombuffer(table, "<i8").astype(np.int64)
    if offsets[0] != 0 or offsets[-1] != size or (count and np.diff(offsets).min() < FRAME_BYTES):
        raise FormatError("the index has records that overlap, or leave gaps; remove it, and write it again")
    return offsets


def _modified(path: str) -> int:
    """Returns when a local file was changed, in ns; -1 for a file elsewhere."""
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return -1
