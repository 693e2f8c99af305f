"""Messages between machines: values as frames of bytes, and back, without pickle."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Final, final

import msgpack
import numpy as np

from ..._errors import MessageError, SendError
from ._array_encoding import ArrayFrames, array_description

__all__ = [
    "MAX_MESSAGE_BYTES",
    "MESSAGE_VERSION",
    "MOST_ITEMS",
    "ValueDecoder",
    "ValueEncoder",
    "as_extension",
    "pack_message",
    "unpack_message",
]

MOST_ITEMS: Final = 2**20
"""Limit of one container; the reader allocates a list before it has seen its items."""

# Extension types of msgpack.
_ARRAY, _SCALAR, _MARK, _INTEGER, _COMPLEX, _BYTEARRAY = range(1, 7)
# A map with one of these marks as its only key is not a dict.
_TUPLE, _OBJECTS = b"t", b"o"
_MARKS = {_TUPLE: msgpack.ExtType(_MARK, _TUPLE), _OBJECTS: msgpack.ExtType(_MARK, _OBJECTS)}
_TWO_FLOATS = struct.Struct("<dd")
_NATIVE = frozenset({str, bytes, int, float, bool, type(None)})


@final
class ValueEncoder:
    """Replaces the parts of a value that msgpack cannot represent, or would restore with another type.

    Args:
        frames: receives the bytes of large arrays.
    """

    def __init__(self, frames: list[Any]) -> None:
        self._frames = frames
        self._kinds: dict[type, Callable[[Any], Any]] = {
            list: self._list,
            tuple: lambda value: tuple(self._list(value)),
            dict: self._dict,
            complex: _complex,
            bytearray: lambda value: msgpack.ExtType(_BYTEARRAY, bytes(value)),
            np.ndarray: self._array,
            np.memmap: self._array,
        }

    def encoded(self, value: Any) -> Any:
        """Returns the msgpack representation of `value`, with `as_extension`.

        Raises:
            SendError: a part of `value` cannot be sent; its arguments are the keys of the part, and the
                message.
        """
        kind = type(value)
        if kind in _NATIVE:
            return value
        if encode := self._kinds.get(kind):
            return encode(value)
        if isinstance(value, np.generic):
            return msgpack.ExtType(_SCALAR, array_description(_whole_scalar(value), self._frames))
        raise _refusal(value)

    def _part(self, key: Any, part: Any) -> Any:
        try:
            return self.encoded(part)
        except SendError as error:
            error.args = (key, *error.args)
            raise

    def _list(self, items: list[Any]) -> list[Any]:
        _check_length(items)
        if _NATIVE.issuperset(map(type, items)):
            return items
        return [self._part(place, item) for place, item in enumerate(items)]

    def _dict(self, value: dict[Any, Any]) -> dict[Any, Any]:
        _check_length(value)
        return {self._part(key, _checked_key(key)): self._part(key, part) for key, part in value.items()}

    def _array(self, array: np.ndarray) -> Any:
        if array.dtype.kind != "O":
            return msgpack.ExtType(_ARRAY, array_description(array, self._frames))
        return {_MARKS[_OBJECTS]: [list(array.shape), self._list(array.reshape(-1).tolist())]}


def _complex(value: complex) -> Any:
    return msgpack.ExtType(_COMPLEX, _TWO_FLOATS.pack(value.real, value.imag))


def _check_length(items: Any) -> None:
    if len(items) > MOST_ITEMS:
        raise SendError(
            f"a {type(items).__name__} of {len(items)} items cannot be sent, the limit is {MOST_ITEMS}; an "
            "array of numbers can have any length"
        )


def _checked_key(key: Any) -> Any:
    if isinstance(key, np.void):
        raise SendError("a NumPy structure cannot be sent as a key; send its fields, key.item()")
    return key


def _whole_scalar(value: np.generic) -> np.ndarray:
    """Returns a scalar as an array; NumPy drops zeros at the end of text and bytes."""
    array = np.asarray(value)
    if array.dtype.kind in "SU" and array[()] != value:
        raise SendError(
            "a NumPy scalar of text or bytes with a trailing zero cannot be sent; send a str or bytes"
        )
    return array


def _refusal(value: Any) -> SendError:
    name = f"{type(value).__module__}.{type(value).__qualname__}"
    if isinstance(value, np.ma.MaskedArray):
        return SendError("a masked array cannot be sent; send its data and its mask")
    if isinstance(value, np.ndarray):
        return SendError(f"an array of the class {name} cannot be sent; send numpy.asarray(array)")
    if isinstance(value, memoryview):
        return SendError("a memoryview cannot be sent; send bytes(view)")
    return SendError(
        f"an object of type {name} cannot be sent; send arrays, numbers, strings, bytes, None, and lists, "
        "tuples and dicts of these"
    )


def as_extension(value: Any) -> Any:
    """Returns the msgpack form of a tuple, and of an integer beyond 64 bits."""
    if type(value) is tuple:
        return {_MARKS[_TUPLE]: list(value)}
    return msgpack.ExtType(_INTEGER, value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True))


@final
class ValueDecoder:
    """Restores the values replaced by `ValueEncoder`.

    Args:
        arrays: the bytes of large arrays.
    """

    def __init__(self, arrays: ArrayFrames) -> None:
        self._arrays = arrays

    def of_extension(self, code: int, content: bytes) -> Any:
        """Returns the value of an extension of msgpack.

        Raises:
            MessageError: the extension is unknown to this release, or its content is damaged.
            ValueError, TypeError, LookupError, struct.error: its content is damaged.
        """
        if code == _ARRAY:
            return self._arrays.array(content)
        if code == _SCALAR:
            return self._arrays.array(content)[()]
        if code == _MARK and content in _MARKS:
            return _MARKS[content]
        if decode := _DECODERS.get(code):
            return decode(content)
        raise MessageError(f"the message has an extension of type {code}, unknown to this release")

    def of_map(self, found: dict[Any, Any]) -> Any:
        """Returns the value of a map: a dict, a tuple or an array of objects."""
        if len(found) == 1:
            if _MARKS[_TUPLE] in found:
                return tuple(found[_MARKS[_TUPLE]])
            if _MARKS[_OBJECTS] in found:
                return _object_array(*found[_MARKS[_OBJECTS]])
        return found


_DECODERS: Final[dict[int, Callable[[bytes], Any]]] = {
    _INTEGER: lambda content: int.from_bytes(content, "little", signed=True),
    _COMPLEX: lambda content: complex(*_TWO_FLOATS.unpack(content)),
    _BYTEARRAY: bytearray,
}


def _object_array(shape: list[int], items: list[Any]) -> np.ndarray:
    if prod(shape) != len(items):
        raise MessageError(f"an object array in the message has shape {shape} and {len(items)} items")
    array = np.empty(len(items), object)
    for place, item in enumerate(items):  # not array[:] = items, which would unpack items that are lists
        array[place] = item
    return array.reshape(shape)


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
