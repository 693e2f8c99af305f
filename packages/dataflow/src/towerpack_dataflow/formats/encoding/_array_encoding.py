"""Encoding of arrays in messages: a description, and the bytes inline or in a separate frame."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, final

import msgpack
import numpy as np

from ..._errors import MessageError, SendError
from ._plain_dtypes import described, dtype_of

__all__ = ["ArrayFrames", "array_description"]

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
            return np.empty(shape, dtype)
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
