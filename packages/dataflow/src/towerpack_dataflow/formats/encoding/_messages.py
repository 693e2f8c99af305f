"""Messages between machines: values as frames of bytes, and back; never pickle."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any, Final

import msgpack
import numpy as np

from ..._errors import MessageError, SendError
from ._array_encoding import ArrayFrames, array_description, is_plain

__all__ = ["MAX_MESSAGE_BYTES", "MESSAGE_VERSION", "pack_message", "unpack_message"]

MESSAGE_VERSION: Final = 1
MAX_MESSAGE_BYTES: Final = 2**30

_MAGIC = b"TWPK"
_HEADER = struct.Struct("<4sHHI")  # magic, version, zero, number of frames that follow
_MOST_ITEMS = 2**20  # of one container; the reader allocates a list before it has seen what is in it
# Types of msgpack's extension.
_ARRAY, _SCALAR, _MARK = 1, 2, 3
# A map whose only key is one of these marks is not a dict.
_TUPLE, _OBJECTS = b"t", b"o"
_MARKS = {_TUPLE: msgpack.ExtType(_MARK, _TUPLE), _OBJECTS: msgpack.ExtType(_MARK, _OBJECTS)}
_Unsendable = (SendError, ValueError, TypeError, RecursionError)
_Unreadable = (ValueError, TypeError, LookupError, OverflowError, MemoryError, RecursionError)


def pack_message(value: Any) -> list[Any]:
    """Encodes `value` as the frames of one message.

    Lists, tuples and dicts at any depth, strings, bytes, integers of 64 bits, floats, booleans, None, NumPy
    scalars, and arrays of numbers, booleans, times or such objects arrive as they are; a `bytearray` arrives
    as bytes, and an array in C order.

    Returns:
        bytes first, then a view of each large array: no copy, so leave the arrays as they are until the
        frames are sent.

    Raises:
        SendError: something in `value` cannot be sent; the message says what, and where.

    Example:
        >>> frames = pack_message(("step", np.zeros((84, 84), "uint8")))
        >>> [len(frame) for frame in frames[1:]]
        [7056]
        >>> unpack_message(frames)[1].shape
        (84, 84)
    """
    frames: list[Any] = [b""]
    try:
        body = _packed(value, frames)
    except _Unsendable as error:
        raise _blamed(value, error) from error
    frames[0] = _HEADER.pack(_MAGIC, MESSAGE_VERSION, 0, len(frames) - 1) + body
    return frames


def unpack_message(frames: Sequence[Any], max_bytes: int = MAX_MESSAGE_BYTES) -> Any:
    """Decodes a message; whatever the frames hold, nothing is executed and no memory beyond them allocated.

    Args:
        frames: buffers. Large arrays are views of theirs, read-only where the frame is.
        max_bytes: the most that all frames together may have.

    Raises:
        MessageError: the frames are no message, have another version, more than `max_bytes`, or parts that
            do not fit together.
    """
    views = [memoryview(frame) for frame in frames]
    size = sum(view.nbytes for view in views)
    if size > max_bytes:
        raise MessageError(
            f"a message of {size} bytes was received, and {max_bytes} are allowed (max_bytes); "
            "send smaller datapoints, or allow more"
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
    """Returns what follows the header, which must be one of this version."""
    if not views or views[0].nbytes < _HEADER.size:
        raise MessageError("the received frames are no message: the first one is shorter than the header")
    magic, version, _, count = _HEADER.unpack_from(views[0])
    if magic != _MAGIC:
        raise MessageError(f"the received frames are no message: they begin with {magic!r}, not {_MAGIC!r}")
    if version != MESSAGE_VERSION:
        raise MessageError(
            f"a message of version {version} was received, and this release reads version "
            f"{MESSAGE_VERSION}; install the same release of towerpack-dataflow on both sides"
        )
    if count != len(views) - 1:
        raise MessageError(f"a message of {count} array frames was received with {len(views) - 1} of them")
    return views[0][_HEADER.size :]


def _packed(value: Any, frames: list[Any]) -> bytes:
    def extension(part: Any) -> Any:
        if type(part) is tuple:
            return {_MARKS[_TUPLE]: list(part)}
        if isinstance(part, np.ndarray):
            return _array(part, frames)
        if isinstance(part, np.generic) and is_plain(part.dtype):
            return msgpack.ExtType(_SCALAR, array_description(np.asarray(part), frames))
        if type(part) is int:
            raise SendError("an integer of more than 64 bits cannot be sent; send it as a string")
        raise SendError(
            f"an object of type {type(part).__module__}.{type(part).__qualname__} cannot be sent; send "
            "arrays, numbers, strings, bytes, None, and lists, tuples and dicts of these"
        )

    body: bytes = msgpack.Packer(default=extension, strict_types=True).pack(value)
    if len(body) > _MOST_ITEMS:  # otherwise no container can have as many
        _check_lengths(value)
    return body


def _array(array: np.ndarray, frames: list[Any]) -> Any:
    if isinstance(array, np.ma.MaskedArray):
        raise SendError("a masked array cannot be sent; send its data and its mask")
    if is_plain(array.dtype):
        return msgpack.ExtType(_ARRAY, array_description(array, frames))
    if array.dtype == object:
        return {_MARKS[_OBJECTS]: [list(array.shape), array.reshape(-1).tolist()]}
    raise SendError(
        f"an array of dtype {array.dtype} cannot be sent; send one of numbers, an object array "
        "(array.astype(object)), or a dict of the fields"
    )


def _check_lengths(value: Any) -> None:
    length = value.size if isinstance(value, np.ndarray) and value.dtype == object else _length(value)
    if length > _MOST_ITEMS:
        raise SendError(
            f"a {type(value).__name__} of {length} items cannot be sent, up to {_MOST_ITEMS} can; an "
            "array of numbers can have any length"
        )
    for part in _parts(value):
        _check_lengths(part)


def _length(value: Any) -> int:
    return len(value) if isinstance(value, (list, tuple, dict)) else 0


def _parts(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, (list, tuple)):
        yield from value


def _unpacked(body: memoryview, arrays: ArrayFrames) -> Any:
    most = min(body.nbytes, _MOST_ITEMS)
    extension, marked = _hooks(arrays)
    return msgpack.unpackb(
        body,
        ext_hook=extension,
        object_hook=marked,
        strict_map_key=False,
        max_array_len=most,
        max_map_len=most,
    )


def _hooks(arrays: ArrayFrames) -> tuple[Callable[[int, bytes], Any], Callable[[dict[Any, Any]], Any]]:
    """Returns what decodes an extension, and what decodes a map."""

    def extension(code: int, content: bytes) -> Any:
        if code == _ARRAY:
            return arrays.array(content)
        if code == _SCALAR:
            return arrays.array(content)[()]
        if code == _MARK and content in _MARKS:
            return _MARKS[content]
        raise MessageError(f"the message has an extension of type {code}, which this release does not know")

    def marked(found: dict[Any, Any]) -> Any:
        if len(found) == 1:
            if _MARKS[_TUPLE] in found:
                return tuple(found[_MARKS[_TUPLE]])
            if _MARKS[_OBJECTS] in found:
                return _object_array(*found[_MARKS[_OBJECTS]])
        return found

    return extension, marked


def _object_array(shape: list[int], items: list[Any]) -> np.ndarray:
    if prod(shape) != len(items):
        raise MessageError(f"an object array in the message has shape {shape} and {len(items)} items")
    array = np.empty(len(items), object)
    for place, item in enumerate(items):  # not array[:] = items, which looks into items that are lists
        array[place] = item
    return array.reshape(shape)


def _blamed(value: Any, error: Exception, place: str = "") -> SendError:
    """Returns the error about the innermost part of `value` that cannot be sent, naming its place."""
    named = value.items() if isinstance(value, dict) else enumerate(_parts(value))
    for name, part in named if "recursion" not in str(error) else ():  # a list may hold itself
        try:
            _packed(part, [])
        except _Unsendable as inner:
            return _blamed(part, inner, f"{place}[{name!r}]")
    if isinstance(error, SendError):
        return SendError(f"value{place}: {error}")
    return SendError(f"value{place}: a {type(value).__name__} cannot be sent: {error}")
