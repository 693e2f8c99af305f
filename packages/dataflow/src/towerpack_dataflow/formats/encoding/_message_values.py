"""Conversion of values without a msgpack type, and back; all other types are rejected."""

from __future__ import annotations

import struct
from collections.abc import Callable
from math import prod
from typing import Any, Final, final

import msgpack
import numpy as np

from ..._errors import MessageError, SendError
from ._array_encoding import ArrayFrames, array_description

__all__ = ["MOST_ITEMS", "ValueDecoder", "ValueEncoder", "as_extension"]

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
