"""How a TFRecord file holds its records: length and bytes, each with a checksum.

Source: tensorflow.org/tutorials/load_data/tfrecord. For each record: its length, 8 bytes; the masked CRC32C
of these; the record; its masked CRC32C. All little-endian.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import numpy as np

from ..._errors import FormatError, extra
from ...storage import StoredFile
from .._offset_index import IndexKind

__all__ = ["FRAME_BYTES", "INDEX", "checked_record", "checksum_function", "framed", "scan"]

FRAME_BYTES = 16
"""What a record takes beside its own bytes."""

INDEX = IndexKind(b"tfrecord", FRAME_BYTES, "index_tfrecord(path)")

_HEADER = struct.Struct("<QI")
_CRC = struct.Struct("<I")
_LENGTH = struct.Struct("<Q")
_BLOCK = 2**22
_COMPRESSED = {b"\x1f\x8b": "GZIP", b"\x78\x01": "ZLIB", b"\x78\x9c": "ZLIB", b"\x78\xda": "ZLIB"}


def checksum_function() -> Callable[[Any], int]:
    """Returns the function that computes the CRC32C of a buffer, without a copy.

    Raises:
        ImportError: the extra `[tfrecord]` is missing.
    """
    with extra("tfrecord", "reading and writing TFRecord files"):
        from crc32c import crc32c
    function: Callable[[Any], int] = crc32c
    return function


def _masked(crc: int) -> int:
    """Returns a checksum as it is stored: rotated and added to, since a checksum of checksums is weak."""
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def framed(record: Any, crc32c: Callable[[Any], int]) -> bytes:
    """Returns a record as the file holds it."""
    length = _LENGTH.pack(len(record))
    return b"".join((length, _CRC.pack(_masked(crc32c(length))), record, _CRC.pack(_masked(crc32c(record)))))


def checked_record(frame: memoryview, crc32c: Callable[[Any], int]) -> memoryview:
    """Returns the record in a frame, which must be exactly as long as the frame says.

    Raises:
        FormatError: a length or a checksum is another one.
    """
    end = len(frame) - 4
    if end < 12:
        raise FormatError(f"a record has at least {FRAME_BYTES} bytes; found {len(frame)}")
    # Written out, because each record pays for it.
    length, masked = _HEADER.unpack_from(frame)
    crc = crc32c(frame[:8])
    if ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF != masked or length != end - 12:
        raise FormatError(
            f"its length is damaged: it says {length} bytes, and {end - 12} lie up to the next record; write "
            "the file again, or its index if the file was replaced"
        )
    record = frame[12:end]
    crc = crc32c(record)
    (masked,) = _CRC.unpack_from(frame, end)
    if ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF != masked:
        raise FormatError(
            f"its bytes are damaged: their checksum is {_masked(crc):#010x}, and {masked:#010x} is stored; "
            "copy or write the file again"
        )
    return record


def scan(file: StoredFile, crc32c: Callable[[Any], int]) -> np.ndarray:
    """Finds where each record begins, by the lengths alone; the last number is the size of the file.

    Raises:
        FormatError: a length is damaged, or the file ends within a record.
    """
    offsets = array("q", [0])
    for end in _ends(file, crc32c):
        offsets.append(end)
    return np.array(offsets, np.int64)


def _ends(file: StoredFile, crc32c: Callable[[Any], int]) -> Iterator[int]:
    number, begin, size = 0, 0, file.size
    first, block = 0, memoryview(b"")
    while begin < size:
        at = begin - first
        if at + 12 > len(block):  # so a file elsewhere is read by large blocks
            first, block, at = begin, file.read(begin, min(_BLOCK, size - begin)), 0
            if len(block) < 12:
                _raise_truncated(file, number, begin, 12)
        length, masked = _HEADER.unpack_from(block, at)
        if _masked(crc32c(block[at : at + 8])) != masked:
            _raise_damaged(file, number, begin, bytes(block[at : at + 2]))
        if begin + length + FRAME_BYTES > size:
            _raise_truncated(file, number, begin, length + FRAME_BYTES)
        begin += length + FRAME_BYTES
        number += 1
        yield begin


def _raise_damaged(file: StoredFile, number: int, begin: int, mark: bytes) -> NoReturn:
    if number == 0 and mark in _COMPRESSED:
        raise FormatError(
            f"{file.name}: the file seems compressed as a whole ({_COMPRESSED[mark]}), so that no record can "
            "be read by itself; decompress it first"
        )
    raise FormatError(
        f"{file.name}, record {number}, at byte {begin}: the checksum of its length is wrong; the file is no "
        "TFRecord file, or is damaged: copy or write it again"
    )


def _raise_truncated(file: StoredFile, number: int, begin: int, needed: int) -> NoReturn:
    raise FormatError(
        f"{file.name}, record {number}, at byte {begin}: the record needs {needed} bytes, and the file ends "
        f"after {file.size - begin} of them: it is truncated, or still being written"
    )
