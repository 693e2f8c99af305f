"""Encoding of arrays in messages: a description, and the bytes inline or in a separate frame."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, final

import msgpack
import numpy as np

from ..._errors import MessageError, SendError

__all__ = ["ArrayFrames", "array_description", "array_of", "described", "dtype_of", "structure"]

_PLAIN = re.compile(r"[<>|=]?([biufcmM]\d{1,2}|[mM]8\[[0-9A-Za-z]+\]|[SUV]\d{1,9})")
_DEEPEST = 8  # nested structures; NumPy traverses them recursively


def dtype_of(description: Any, depth: int = 0) -> np.dtype[Any]:
    """Creates a dtype from its description by `described` or `numpy.dtype.descr`.

    Args:
        description: a string such as `"<f8"`, `"<U5"` or `"<M8[ns]"`, or a sequence of name, description and
            optional shape for each field. Strings may be bytes.
        depth: depth of the enclosing structure.

    Raises:
        ValueError, TypeError: the description is invalid.
    """
    if isinstance(description, (list, tuple)):
        if depth == _DEEPEST:
            raise ValueError(f"a dtype has structures nested more than {_DEEPEST} deep")
        return np.dtype([_field(depth, *field) for field in description])
    text = _text(description)
    if not _PLAIN.fullmatch(text):
        raise ValueError(f"an array has the dtype {text!r}, which does not hold plain values")
    return np.dtype(text)


def _field(depth: int, name: Any, description: Any, shape: Any = ()) -> Any:
    return _text(name), dtype_of(description, depth + 1), _axes(shape)


def described(dtype: np.dtype[Any]) -> Any:
    """Returns the description of a dtype; `None` if no description restores an equal dtype."""
    try:
        description = dtype.str if dtype.names is None else dtype.descr
        found = dtype_of(description)
    except (ValueError, TypeError):
        return None
    return description if dtype.itemsize and (found, found.type) == (dtype, dtype.type) else None


def array_of(raw: Any, dtype: np.dtype[Any], shape: tuple[int, ...], order: Any = "C") -> np.ndarray:
    """Creates an array with a copy of its bytes.

    Raises:
        ValueError: the shape needs another number of bytes, or values of no size.
    """
    size = math.prod(shape) * dtype.itemsize
    if size != len(raw) or (shape and not dtype.itemsize):
        raise ValueError(f"an array of shape {shape} and dtype {dtype} has {size} bytes; found {len(raw)}")
    return (
        np.frombuffer(bytearray(raw), dtype).reshape(shape, order=order) if size else np.zeros(shape, dtype)
    )


def structure(names: Any, fields: Any, itemsize: Any) -> np.dtype[Any]:
    """Creates the dtype of a structure from existing dtypes of its fields.

    Args:
        names: names of the fields, a tuple.
        fields: dtype and offset by name, a dict.
        itemsize: size of the structure in bytes.

    Raises:
        ValueError, TypeError, LookupError: a part is invalid, or holds Python objects.
    """
    if type(names) is not tuple or type(fields) is not dict or type(itemsize) is not int or not names:
        raise ValueError("a structure consists of names, fields and a size")
    formats, offsets = zip(*(fields[_text(name)] for name in names))
    if not all(isinstance(one, np.dtype) and one.itemsize and not one.hasobject for one in formats):
        raise ValueError("a structure consists only of plain values")
    if not all(type(offset) is int and offset >= 0 for offset in offsets):
        raise ValueError("a structure has offsets from 0 up")
    if _depth(formats) >= _DEEPEST:
        raise ValueError(f"a dtype has structures nested more than {_DEEPEST} deep")
    return np.dtype({"names": list(names), "formats": formats, "offsets": offsets, "itemsize": itemsize})


def _depth(formats: Any) -> int:
    """Counts levels of structures; each level visits a dtype once."""
    depth, level = 0, {id(one): one for one in formats}
    while level := {id(part): part for one in level.values() for part in _parts(one)}:
        depth += 1
    return depth


def _parts(dtype: np.dtype[Any]) -> list[np.dtype[Any]]:
    if dtype.subdtype is not None:
        return [dtype.subdtype[0]]
    return [field[0] for field in (dtype.fields or {}).values()]


def _text(part: Any) -> str:
    if isinstance(part, bytes):
        return part.decode("latin-1")
    if type(part) is not str:
        raise ValueError(f"a dtype is described by strings; found {type(part).__name__}")
    return part


def _axes(shape: Any) -> tuple[int, ...]:
    axes = tuple(shape) if isinstance(shape, (list, tuple)) else (shape,)
    if not all(type(axis) is int and axis >= 0 for axis in axes):
        raise ValueError(f"an array field has the shape {shape!r}")
    return axes


_INLINE = 2**12  # bytes; below, a copy in the message is cheaper than a separate frame
_MOST_AXES = 32  # the limit of all releases of NumPy


def array_description(array: np.ndarray, frames: list[Any]) -> bytes:
    """Describes an array of plain values, and appends its bytes to `frames` if it is large.

    Args:
        array: any layout and byte order. A contiguous one is not copied, so it must not change until the
            frames are sent.
        frames: receives a view of the bytes.

    Raises:
        SendError: the array has another dtype, or more axes than all releases of NumPy support.
    """
    description = described(array.dtype)
    if description is None:
        raise SendError(
            f"an array of dtype {array.dtype} cannot be sent; send one of numbers, times, text or bytes, an "
            "object array (array.astype(object)), or a dict of the fields"
        )
    if array.ndim > _MOST_AXES:
        raise SendError(f"an array of up to {_MOST_AXES} axes can be sent; received one with {array.ndim}")
    raw = _raw_bytes(array)
    if raw.nbytes < _INLINE:
        return _packed(description, array.shape, raw.tobytes())
    frames.append(raw)
    return _packed(description, array.shape, None)


def _raw_bytes(array: np.ndarray) -> memoryview:
    """Returns the bytes of `array` in C order, without a copy if possible."""
    # Arrays of times do not support buffers; an array without axes cannot be viewed as bytes.
    return np.asarray(array, order="C").reshape(-1).view(np.uint8).data


def _packed(*parts: Any) -> bytes:
    packed: bytes = msgpack.packb(parts)
    return packed


@final
class ArrayFrames:
    """The separate frames of a message, each of which becomes one array, in order.

    Args:
        frames: buffers. The arrays are views of them, and read-only if the buffers are.
    """

    def __init__(self, frames: Sequence[Any]) -> None:
        self._frames = iter(frames)

    def array(self, description: bytes) -> np.ndarray:
        """Creates the array of a description; uses the next frame if its bytes are there.

        Raises:
            MessageError: the description is invalid, or does not match the bytes.
        """
        dtype, shape, inline = self._parts(description)
        raw = memoryview(self._next_frame() if inline is None else inline)
        size = math.prod(shape) * dtype.itemsize
        if size != raw.nbytes:
            raise MessageError(
                f"an array in the message has shape {shape} and dtype {dtype}, thus {size} bytes; "
                f"received {raw.nbytes}"
            )
        if not size:
            return np.zeros(shape, dtype)
        array = np.frombuffer(raw, np.uint8).view(dtype).reshape(shape)
        # Bytes are read-only, and frames begin anywhere.
        return array if inline is None and array.flags.aligned else array.copy()

    def check_used(self) -> None:
        """Checks that all frames are used.

        Raises:
            MessageError: a frame is unused.
        """
        if next(self._frames, None) is not None:
            raise MessageError("the message has frames without an array")

    def _parts(self, description: bytes) -> tuple[np.dtype[Any], tuple[int, ...], Any]:
        parts = msgpack.unpackb(description, use_list=False)
        if not (isinstance(parts, tuple) and len(parts) == 3 and isinstance(parts[1], tuple)):
            raise MessageError("the description of an array in the message has unexpected parts")
        kind, shape, raw = parts
        if len(shape) > _MOST_AXES or not all(type(axis) is int and axis >= 0 for axis in shape):
            raise MessageError(f"an array in the message has the shape {shape!r}")
        dtype = dtype_of(kind)
        if not dtype.itemsize:
            raise MessageError(f"an array in the message has values without bytes, of dtype {dtype}")
        return dtype, shape, raw

    def _next_frame(self) -> Any:
        for frame in self._frames:
            return frame
        raise MessageError("an array in the message has no frame with its bytes")
