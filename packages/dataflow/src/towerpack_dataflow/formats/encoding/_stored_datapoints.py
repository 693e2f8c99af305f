"""Datapoints in files of unknown origin: our encoding, or one of the three encodings of Tensorpack."""

from __future__ import annotations

import struct
from typing import Any

import msgpack

from ..._errors import FormatError
from ._pickled_arrays import unpickle_arrays
from ._plain_dtypes import array_of, dtype_of
from ._records import RECORD_MAGIC, unpack_record

__all__ = ["decode_stored"]

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
