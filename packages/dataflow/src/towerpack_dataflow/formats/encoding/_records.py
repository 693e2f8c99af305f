"""Records of files: a message followed by its arrays."""

from __future__ import annotations

import struct
import zlib
from typing import Any, Final

from ..._errors import FormatError, MessageError
from ._messages import pack_message, unpack_message

__all__ = ["RECORD_MAGIC", "RECORD_VERSION", "pack_record", "record_version", "unpack_record"]

RECORD_MAGIC: Final = b"TWDP"
RECORD_VERSION: Final = 2
"""Version of records with a checksum; version 1 has none, for files with their own checksums."""

_HEADER = struct.Struct("<4sHHI")  # magic, version, zero, number of frames
_CHECKSUM = struct.Struct("<I")  # in version 2, after the header: CRC32 of all other bytes
_SIZE = struct.Struct("<Q")
_ALIGNMENT = 16  # the largest alignment of any number, and that of memory from malloc


def pack_record(value: Any, checksum: bool = False) -> bytes:
    """Encodes a datapoint as the bytes of one record, including format and version.

    A record is a header, a checksum, the size of each frame of `pack_message(value)`, and these frames. Each
    frame begins at a multiple of 16 bytes, so that arrays need no copy when the record is read.

    Args:
        value: the datapoint.
        checksum: whether to add a checksum that detects any changed bit; for files without checksums.

    Raises:
        SendError: a part of `value` is neither an array, a number, a string, bytes, None, nor a container of
            these.

    Example:
        >>> import numpy as np
        >>> unpack_record(pack_record([np.arange(3), "label"]))
        [array([0, 1, 2]), 'label']
    """
    frames = pack_message(value)
    sizes = [memoryview(frame).nbytes for frame in frames]
    version = RECORD_VERSION if checksum else 1
    head = _HEADER.pack(RECORD_MAGIC, version, 0, len(frames)) + bytes(_CHECKSUM.size if checksum else 0)
    head += b"".join(map(_SIZE.pack, sizes))
    parts = [head, _padding(len(head))]
    for frame, size in zip(frames, sizes):
        parts += frame, _padding(size)
    if not checksum:
        return b"".join(parts)
    record = bytearray().join(parts)
    _CHECKSUM.pack_into(record, _HEADER.size, _checksum(memoryview(record)))
    return bytes(record)


def _checksum(view: memoryview) -> int:
    return zlib.crc32(view[_HEADER.size + _CHECKSUM.size :], zlib.crc32(view[: _HEADER.size]))


def unpack_record(record: Any) -> Any:
    """Decodes a record; executes nothing and allocates no memory beyond it.

    Args:
        record: a buffer. Large arrays are views of it: writable if it is, as a `bytearray` is.

    Raises:
        FormatError: the bytes are not a record, are damaged, or have another version.
    """
    view = memoryview(record)
    try:
        return unpack_message(_frames(view), max_bytes=view.nbytes)
    except MessageError as error:
        raise FormatError(f"the record is damaged: {error}") from error


def record_version(record: Any) -> int | None:
    """Returns the format version of a record; `None` for bytes not made by `pack_record`."""
    view = memoryview(record)
    if view.nbytes < _HEADER.size or bytes(view[: len(RECORD_MAGIC)]) != RECORD_MAGIC:
        return None
    version: int = _HEADER.unpack_from(view)[1]
    return version


def _frames(view: memoryview) -> list[memoryview]:
    if view.nbytes < _HEADER.size or bytes(view[: len(RECORD_MAGIC)]) != RECORD_MAGIC:
        raise FormatError(f"the bytes are not a record: they do not begin with {RECORD_MAGIC!r}")
    _, version, _, count = _HEADER.unpack_from(view)
    if version not in (1, RECORD_VERSION):
        raise FormatError(
            f"the record has version {version}, and this release reads versions 1 and {RECORD_VERSION}; read "
            "it with the release of towerpack-dataflow that wrote it"
        )
    sizes = _HEADER.size + (_CHECKSUM.size if version == RECORD_VERSION else 0)
    begin = sizes + count * _SIZE.size
    if begin > view.nbytes:
        raise FormatError(f"the record is damaged: {count} frames do not fit into {view.nbytes} bytes")
    if version == RECORD_VERSION and _CHECKSUM.unpack_from(view, _HEADER.size)[0] != _checksum(view):
        raise FormatError("the record is damaged: its checksum is wrong; copy or write the file again")
    frames, at = [], begin + len(_padding(begin))
    for (size,) in _SIZE.iter_unpack(view[sizes:begin]):
        if at + size > view.nbytes:
            raise FormatError(f"the record is damaged: it ends after {view.nbytes} bytes, within a frame")
        frames.append(view[at : at + size])
        at += size + len(_padding(size))
    if at != view.nbytes:
        raise FormatError(f"the record is damaged: it has {view.nbytes} bytes, but its frames end at {at}")
    return frames


def _padding(size: int) -> bytes:
    return bytes(-size % _ALIGNMENT)
