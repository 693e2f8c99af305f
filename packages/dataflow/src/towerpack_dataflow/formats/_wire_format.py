"""The wire format of protocol buffers: successive fields of a message.

Source: protobuf.dev/programming-guides/encoding. A message with two or three kinds of fields needs no
generated classes, which would create and discard objects for each record.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

__all__ = ["WireError", "fields", "length_delimited", "packed_varints", "varint"]

VARINT, FIXED64, DELIMITED, FIXED32 = 0, 1, 2, 5
_FIXED = {FIXED64: 8, FIXED32: 4}
_MOST_BYTES = 10  # of a varint: 64 bits, 7 per byte
_MASK = 2**64 - 1


class WireError(ValueError):
    """The bytes are not a protocol buffer message."""


def fields(message: memoryview) -> Iterator[tuple[int, int, Any]]:
    """Yields number, wire type and value of each field: an integer for a varint, else a view of its bytes.

    Raises:
        WireError: the bytes end within a field, or have an invalid wire type.
    """
    at, end = 0, len(message)
    while at < end:
        tag = message[at]
        at += 1
        if tag > 127:
            tag, at = _varint_from(message, at - 1)
        kind = tag & 7
        if kind == DELIMITED:
            if at < end and message[at] < 128:
                size = message[at]
                at += 1
            else:
                size, at = _varint_from(message, at)
        elif kind == VARINT:
            value, at = _varint_from(message, at)
            yield tag >> 3, kind, value
            continue
        elif kind in _FIXED:
            size = _FIXED[kind]
        else:
            raise WireError(f"field {tag >> 3} has the wire type {kind}")
        if at + size > end:
            raise WireError(f"field {tag >> 3} has {size} bytes, but {end - at} are present")
        yield tag >> 3, kind, message[at : at + size]
        at += size


def _varint_from(message: memoryview, at: int) -> tuple[int, int]:
    """Returns the varint at a position, and the position after it."""
    value = shift = 0
    for byte in message[at : at + _MOST_BYTES]:
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & _MASK, at
        shift += 7
    raise WireError("a number does not end")


def packed_varints(packed: memoryview) -> np.ndarray:
    """Returns packed numbers as int64.

    Raises:
        WireError: the last one does not end, or one has more than 64 bits.
    """
    if len(packed) == 1 and packed[0] < 128:
        return np.array([packed[0]], np.int64)
    raw = np.frombuffer(packed, np.uint8)
    ends = np.flatnonzero(raw < 128)
    if raw.size and (not ends.size or ends[-1] != raw.size - 1):
        raise WireError("the last of the packed numbers does not end")
    starts = np.concatenate([np.zeros(min(1, ends.size), np.intp), ends[:-1] + 1])
    lengths = ends - starts + 1
    if lengths.size and lengths.max() > _MOST_BYTES:
        raise WireError("one of the packed numbers has more than 64 bits")
    places = np.arange(raw.size) - np.repeat(starts, lengths)
    parts = (raw & 127).astype(np.uint64) << (7 * places).astype(np.uint64)
    if not starts.size:
        return np.empty(0, np.int64)
    numbers: np.ndarray = np.bitwise_or.reduceat(parts, starts).view(np.int64)
    return numbers


def varint(number: int) -> bytes:
    """Encodes an integer of 64 bits; a negative one as its two's complement."""
    number &= _MASK
    encoded = bytearray()
    while number > 127:
        encoded.append(number & 127 | 128)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def length_delimited(number: int, content: bytes) -> bytes:
    """Encodes a field of bytes, text, packed numbers or another message."""
    return varint(number << 3 | DELIMITED) + varint(len(content)) + content
