"""Datapoints in files of unknown origin: our encoding, or one of the three encodings of Tensorpack."""

from __future__ import annotations

import struct
import zlib
from typing import Any, Final

import msgpack

from ..._errors import FormatError, MessageError
from ._array_encoding import array_of, dtype_of
from ._messages import pack_message, unpack_message
from ._pickled_arrays import unpickle_arrays

__all__ = [
    "RECORD_MAGIC",
    "RECORD_VERSION",
    "decode_stored",
    "pack_record",
    "record_version",
    "unpack_record",
]

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


_ARROW_COUNTS = struct.Struct(
    "<3i"
)  # the first bytes of pyarrow's serialization of tensors, sparse tensors and arrays
_MOST_COUNTED = 2**20
_ARROW = """pyarrow's serialization, which pyarrow 12 and later cannot read. Rewrite the file \
with an old one, which takes the values for those of the original's pickle:
  uv run --python 3.11 --with 'pyarrow<12' --with 'numpy<2' --with lmdb python -c "
import lmdb, pickle, pyarrow as pa, sys
old = lmdb.open(sys.argv[1], subdir=False, readonly=True, lock=False)
new = lmdb.open(sys.argv[2], subdir=False, lock=False, map_size=2**41)
with old.begin() as a, new.begin(write=True) as b:
    for key, value in a.cursor():
        b.put(key, pickle.dumps(pa.deserialize(value), protocol=4))
" OLD.lmdb NEW.lmdb"""
_Unreadable = (ValueError, TypeError, LookupError, OverflowError, MemoryError, RecursionError, SyntaxError)


def decode_stored(data: Any, allow_pickle: bool = False) -> Any:
    """Decodes a datapoint of `pack_record` or of a serializer of Tensorpack 0.11, identified by its bytes.

    Args:
        data: a buffer. Large arrays of a `pack_record` are views of it.
        allow_pickle: whether a pickle may import and call any object by name. Without it, a pickle may
            contain only arrays and Python's builtin types. Allow it only for trusted files.

    Raises:
        FormatError: the bytes have none of these encodings, are damaged, or contain a forbidden object; or
            they are pyarrow's serialization: the message has a command that rewrites it.
    """
    view = memoryview(data)
    if bytes(view[: len(RECORD_MAGIC)]) == RECORD_MAGIC:
        return unpack_record(view)
    if view.nbytes > 1 and view[0] == 0x80:  # the protocol mark of pickle; in msgpack, an empty map
        return unpickle_arrays(view, allow_pickle)
    if _is_arrow(view):
        raise FormatError(f"the record holds {_ARROW}")
    try:
        return msgpack.unpackb(
            view,
            raw=False,
            strict_map_key=False,
            object_hook=lambda found: _revived(found, allow_pickle),
            max_array_len=view.nbytes,
            max_map_len=view.nbytes,
        )
    except FormatError:
        raise
    except _Unreadable as error:
        raise FormatError(
            f"the record is not a datapoint of Towerpack or Tensorpack: decoding as msgpack raised {error!r}"
        ) from error


def _is_arrow(view: memoryview) -> bool:
    """Tells whether the bytes begin with small counts; containers of msgpack begin with a byte above 127."""
    if view.nbytes < 4 * _ARROW_COUNTS.size:
        return False
    return all(0 <= count < _MOST_COUNTED for count in _ARROW_COUNTS.unpack_from(view))


def _revived(found: dict[Any, Any], allow_pickle: bool) -> Any:
    """Returns the array, scalar or complex number encoded by msgpack-numpy as such a dict."""
    if b"nd" in found and {b"type", b"data"} <= found.keys():
        if _text(found.get(b"kind", b"")) == "O":
            return unpickle_arrays(memoryview(found[b"data"]), allow_pickle)
        return _array(found)
    if b"complex" in found and b"data" in found:
        return complex(_text(found[b"data"]))
    return found


def _array(parts: dict[Any, Any]) -> Any:
    shape = tuple(parts[b"shape"]) if parts[b"nd"] else ()
    if any(type(axis) is not int or axis < 0 for axis in shape):
        raise ValueError(f"an array has the shape {shape}")
    array = array_of(parts[b"data"], dtype_of(parts[b"type"]), shape)
    return array if parts[b"nd"] else array[()]


def _text(part: Any) -> str:
    return part.decode("latin-1") if isinstance(part, bytes) else str(part)
