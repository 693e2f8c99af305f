"""The framing of records in a TFRecord file: length and bytes, each with a checksum.

Source: tensorflow.org/tutorials/load_data/tfrecord. For each record: its length, 8 bytes; the masked CRC32C
of these; the record; its masked CRC32C. All little-endian.
"""

from __future__ import annotations

import os
import struct
from array import array
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn

import numpy as np

from ..._errors import ArgumentTypeError, FormatError, extra
from ...storage import StoredFile, create_file, open_url
from .._offset_index import IndexKind, store_index
from .._plain_values import with_progress

__all__ = [
    "FRAME_BYTES",
    "INDEX",
    "checked_record",
    "checksum_function",
    "framed",
    "index_tfrecord",
    "scan",
    "write_tfrecord",
]

FRAME_BYTES = 16
"""Overhead of a record in bytes."""

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
    """Returns a checksum in its stored form: rotated with an offset; a checksum of checksums is weak."""
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def framed(record: Any, crc32c: Callable[[Any], int]) -> bytes:
    """Returns a record with its frame."""
    length = _LENGTH.pack(len(record))
    return b"".join((length, _CRC.pack(_masked(crc32c(length))), record, _CRC.pack(_masked(crc32c(record)))))


def checked_record(frame: memoryview, crc32c: Callable[[Any], int]) -> memoryview:
    """Returns the record in a frame after checking its length and checksums.

    Raises:
        FormatError: a length or a checksum differs.
    """
    end = len(frame) - 4
    if end < 12:
        raise FormatError(f"a record has at least {FRAME_BYTES} bytes; found {len(frame)}")
    # Inlined, because it runs for each record.
    length, masked = _HEADER.unpack_from(frame)
    crc = crc32c(frame[:8])
    if ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF != masked or length != end - 12:
        raise FormatError(
            f"its length is damaged: it is {length} bytes, but {end - 12} lie before the next record; write "
            "the file again, or its index if the file was replaced"
        )
    record = frame[12:end]
    crc = crc32c(record)
    (masked,) = _CRC.unpack_from(frame, end)
    if ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF != masked:
        raise FormatError(
            f"its bytes are damaged: their checksum is {_masked(crc):#010x}, but {masked:#010x} is stored; "
            "copy or write the file again"
        )
    return record


def scan(file: StoredFile, crc32c: Callable[[Any], int]) -> np.ndarray:
    """Returns the start of each record, found by the lengths, and as last number the size of the file.

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
        if at + 12 > len(block):  # so a remote file is read in large blocks
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
            f"{file.name}: the file seems compressed as a whole ({_COMPRESSED[mark]}), so that no record "
            "can be read independently; decompress it first"
        )
    raise FormatError(
        f"{file.name}, record {number}, at byte {begin}: the checksum of its length is wrong; the file is "
        "not a TFRecord file, or is damaged: copy or write it again"
    )


def _raise_truncated(file: StoredFile, number: int, begin: int, needed: int) -> NoReturn:
    raise FormatError(
        f"{file.name}, record {number}, at byte {begin}: the record needs {needed} bytes, but the file ends "
        f"after {file.size - begin} of them: it is truncated, or still being written"
    )


def write_tfrecord(records: Iterable[bytes], path: str | os.PathLike[str]) -> None:
    """Writes a TFRecord file and its index, both atomically.

    Args:
        records: bytes of each record, such as results of `encode_example`.
        path: path of the file. An existing file is replaced; current readers continue to read the old one.

    Raises:
        ArgumentTypeError: a record is not bytes.
        ImportError: the extra `[tfrecord]` is missing.
        OSError: the file cannot be written.
    """
    crc32c = checksum_function()
    ends = array("q", [0])
    with create_file(path) as file:
        for number, record in enumerate(with_progress(records, f"writing {os.path.basename(path)}")):
            if not isinstance(record, (bytes, bytearray)):
                raise ArgumentTypeError(
                    f"records are bytes; received {type(record).__name__} for record {number}. "
                    "Encode arrays with encode_example, or write datapoints with TFRecordSerializer.save"
                )
            file.write(framed(record, crc32c))
            ends.append(ends[-1] + len(record) + FRAME_BYTES)
    with open_url(path) as written:
        store_index(written, INDEX, np.array(ends, np.int64))


def index_tfrecord(path: str | os.PathLike[str]) -> int:
    """Writes the index of a TFRecord file, `<path>.index`, so that flows over the file are created at once.

    The index records its format and version, and size, time and last bytes of the file, so that a flow
    detects a replaced file.

    Returns:
        the number of records.

    Raises:
        FormatError: the file is not a TFRecord file, is truncated, or is compressed as a whole.
        ImportError: the extra `[tfrecord]` is missing.
        OSError: the file cannot be read, or the index cannot be written.
    """
    with open_url(path) as file:
        offsets = scan(file, checksum_function())
        store_index(file, INDEX, offsets)
    return len(offsets) - 1
