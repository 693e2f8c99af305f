"""Messages between machines: values as frames of bytes, and back, without pickle."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final

import msgpack

from ..._errors import MessageError, SendError
from ._array_encoding import ArrayFrames
from ._message_values import MOST_ITEMS, ValueDecoder, ValueEncoder, as_extension

__all__ = ["MAX_MESSAGE_BYTES", "MESSAGE_VERSION", "pack_message", "unpack_message"]

MESSAGE_VERSION: Final = 1
MAX_MESSAGE_BYTES: Final = 2**30

_MAGIC = b"TWPK"
_HEADER = struct.Struct("<4sHHI")  # magic, version, zero, number of following frames
_Unreadable = (
    ValueError, TypeError, LookupError, OverflowError, MemoryError, RecursionError, struct.error,
)  # fmt: skip


def pack_message(value: Any) -> list[Any]:
    """Encodes `value` as the frames of one message.

    Supported at any depth up to 300: lists, tuples and dicts, strings, bytes, bytearrays, integers of any
    size, floats, complex numbers, booleans, None, NumPy scalars, and arrays of numbers, booleans, times,
    text, bytes, structures of these, or such objects; types and dtypes are kept. An array arrives in C order,
    a `numpy.memmap` as an array. Other types are rejected, subclasses and masked arrays among them.

    Returns:
        bytes first, then a view of each large array without a copy; do not change the arrays until the frames
        are sent.

    Raises:
        SendError: a part of `value` cannot be sent; the message names it and its position.

    Example:
        >>> import numpy as np
        >>> frames = pack_message(("step", np.zeros((84, 84), "uint8")))
        >>> [len(frame) for frame in frames[1:]]
        [7056]
        >>> unpack_message(frames)[1].shape
        (84, 84)
    """
    frames: list[Any] = [b""]
    try:
        body = _packed(value, frames)
    except SendError as error:
        *keys, text = error.args
        place = "".join(f"[{key!r}]" for key in keys)
        error.args = (f"value{place}: {text}",)
        raise
    except (ValueError, RecursionError) as error:
        raise SendError(f"value: a {type(value).__name__} cannot be sent: {error}") from error
    frames[0] = _HEADER.pack(_MAGIC, MESSAGE_VERSION, 0, len(frames) - 1) + body
    return frames


def unpack_message(frames: Sequence[Any], max_bytes: int = MAX_MESSAGE_BYTES) -> Any:
    """Decodes a message; executes nothing and allocates no memory beyond the frames, for any content.

    Args:
        frames: buffers. Large arrays are views of them, read-only if the frame is.
        max_bytes: limit of the size of all frames together.

    Raises:
        MessageError: the frames are not a message, have another version, more than `max_bytes`, or
            inconsistent parts.
    """
    views = [memoryview(frame) for frame in frames]
    size = sum(view.nbytes for view in views)
    if size > max_bytes:
        raise MessageError(
            f"a message of {size} bytes was received, but the limit is {max_bytes} (max_bytes); "
            "send smaller datapoints, or increase the limit"
        )
    body = _checked_body(views)
    arrays = ArrayFrames(views[1:])
    try:
        value = _unpacked(body, arrays)
    except MessageError:
        raise
    except _Unreadable as error:
        raise MessageError(f"the body of a message cannot be read: {error}") from error
    arrays.check_used()
    return value


def _checked_body(views: list[memoryview]) -> memoryview:
    """Returns the body after the header; the header must have this version."""
    if not views or views[0].nbytes < _HEADER.size:
        raise MessageError("the frames are not a message: the first one is shorter than the header")
    magic, version, _, count = _HEADER.unpack_from(views[0])
    if magic != _MAGIC:
        raise MessageError(f"the frames are not a message: they begin with {magic!r}, not {_MAGIC!r}")
    if version != MESSAGE_VERSION:
        raise MessageError(
            f"a message of version {version} was received, and this release reads version "
            f"{MESSAGE_VERSION}; install the same release of towerpack-dataflow on both sides"
        )
    if count != len(views) - 1:
        raise MessageError(f"a message with {count} array frames was received with only {len(views) - 1}")
    return views[0][_HEADER.size :]


def _packed(value: Any, frames: list[Any]) -> bytes:
    encoded = ValueEncoder(frames).encoded(value)
    packer = msgpack.Packer(default=as_extension, strict_types=True, unicode_errors="surrogatepass")
    body: bytes = packer.pack(encoded)
    return body


def _unpacked(body: memoryview, arrays: ArrayFrames) -> Any:
    most, decoder = min(body.nbytes, MOST_ITEMS), ValueDecoder(arrays)
    return msgpack.unpackb(
        body,
        ext_hook=decoder.of_extension,
        object_hook=decoder.of_map,
        strict_map_key=False,
        unicode_errors="surrogatepass",
        max_array_len=most,
        max_map_len=most,
    )
