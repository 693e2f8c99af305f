"""Reads and writes the wire format of protocol buffers, without the definitions of the messages.

A message consists of fields: each has a key (number and kind of the field), for bytes their length, and the
content.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator

__all__ = [
    "ProtobufError",
    "Span",
    "encode_bytes",
    "encode_double",
    "encode_text",
    "read_fields",
    "read_varint",
]

Span = tuple[int, int]
"""The positions of the first byte and of the end."""

_VARINT, _BYTES = 0, 2
_FIXED = {1: 8, 5: 4}  # kinds of fields of a fixed size, in bytes
_LONGEST_VARINT = 10  # bytes


class ProtobufError(ValueError):
    """The bytes are not a message, or a field does not have the requested type."""


def read_fields(content: mmap.mmap | memoryview, span: Span) -> Iterator[tuple[int, int | Span]]:
    """Yields number and value of each field of a message: an integer, or the span of its bytes.

    Args:
        content: bytes with the message.
        span: that of the message.

    Raises:
        ProtobufError: the message ends within a field, or a kind of field is invalid.
    """
    place, end = span
    while place < end:
        key, place = read_varint(content, place, end)
        number, kind = divmod(key, 8)
        if kind == _VARINT:
            value, place = read_varint(content, place, end)
            yield number, value
            continue
        size = _FIXED.get(kind)
        if kind == _BYTES:
            size, place = read_varint(content, place, end)
        if size is None:
            raise ProtobufError(f"field {number} has the wire type {kind}")
        if size > end - place:
            raise ProtobufError(f"a field of {size} bytes has only {end - place} bytes")
        yield number, (place, place + size)
        place += size


def read_varint(content: mmap.mmap | memoryview, place: int, end: int) -> tuple[int, int]:
    """Reads an integer of variable length; returns it with the position of the next byte.

    Raises:
        ProtobufError: the integer has no end.
    """
    value = 0
    for number, byte in enumerate(content[place : min(place + _LONGEST_VARINT, end)]):
        value += (byte & 127) << (7 * number)
        if byte < 128:
            return value, place + number + 1
    raise ProtobufError("a variable-length number has no end")


def encode_bytes(number: int, content: bytes) -> bytes:
    """Encodes a field of bytes, or of a message."""
    return bytes([number << 3 | _BYTES]) + _varint(len(content)) + content


def encode_text(number: int, text: str) -> bytes:
    """Encodes a field of text."""
    return encode_bytes(number, text.encode("utf-8"))


def encode_double(number: int, value: float) -> bytes:
    """Encodes a field of double precision."""
    return bytes([number << 3 | 1]) + struct.pack("<d", float(value))


def _varint(value: int) -> bytes:
    encoded = b""
    while value >= 128:
        encoded += bytes([value & 127 | 128])
        value >>= 7
    return encoded + bytes([value])
