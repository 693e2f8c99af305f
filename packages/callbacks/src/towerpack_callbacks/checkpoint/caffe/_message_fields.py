"""The fields of a protocol buffer message, collected by number.

Source: protobuf.dev/programming-guides/encoding. A model consists of few messages with large arrays, which
generated classes would copy.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import final

import numpy as np

__all__ = ["MessageError", "MessageFields"]

_Content = int | memoryview


class MessageError(ValueError):
    """The bytes are not a message, or a field does not have the requested type."""


@final
class MessageFields:
    """Fields by number, each a list, since any field may be repeated.

    Args:
        message: the bytes of the message, without its length.

    Raises:
        MessageError: the bytes end within a field, or a wire type is invalid.
    """

    def __init__(self, message: memoryview) -> None:
        self._fields: dict[int, list[_Content]] = {}
        reader = _Reader(message)
        while reader.rest:
            number, content = reader.next_field()
            self._fields.setdefault(number, []).append(content)

    def __contains__(self, number: int) -> bool:
        return number in self._fields

    def messages(self, number: int) -> Iterator[MessageFields]:
        """Yields the messages of a field."""
        return (MessageFields(content) for content in self._views(number))

    def number(self, number: int, default: int) -> int:
        """Returns an integer; the last occurrence counts."""
        content = self._fields.get(number, [default])[-1]
        if not isinstance(content, int):
            raise MessageError(f"field {number} is not an integer")
        return content

    def numbers(self, number: int) -> list[int]:
        """Returns the integers of a field, packed or not."""
        found: list[int] = []
        for content in self._fields.get(number, []):
            if isinstance(content, int):
                found.append(content)
                continue
            packed = _Reader(content)
            while packed.rest:
                found.append(packed.varint())
        return found

    def text(self, number: int) -> str:
        """Returns the text of a field, or an empty string."""
        return (self.texts(number) or [""])[-1]

    def texts(self, number: int) -> list[str]:
        """Returns the texts of a field."""
        try:
            return [str(content, "utf-8") for content in self._views(number)]
        except UnicodeDecodeError as error:
            raise MessageError(f"field {number} is not text: {error}") from error

    def floats(self, number: int, dtype: str) -> np.ndarray:
        """Returns the numbers of a field, packed or not, of "<f4" or "<f8"."""
        content = b"".join(self._views(number))
        if len(content) % np.dtype(dtype).itemsize:
            raise MessageError(
                f"field {number} has {len(content)} bytes, which is not a whole number of elements"
            )
        return np.frombuffer(content, dtype)

    def _views(self, number: int) -> list[memoryview]:
        found = self._fields.get(number, [])
        views = [content for content in found if isinstance(content, memoryview)]
        if len(views) < len(found):
            raise MessageError(f"field {number} is an integer; expected bytes")
        return views


@final
class _Reader:
    """Reads parts of a message from its front."""

    def __init__(self, message: memoryview) -> None:
        self.rest = message

    def next_field(self) -> tuple[int, _Content]:
        number, wire_type = divmod(self.varint(), 8)
        match wire_type:
            case 0:
                return number, self.varint()
            case 2:
                return number, self._take(self.varint())
            case 1 | 5:
                return number, self._take(8 if wire_type == 1 else 4)
        raise MessageError(f"field {number} has the wire type {wire_type}")

    def varint(self) -> int:
        value = 0
        for place, byte in enumerate(self.rest[:10]):
            value += (byte % 128) << (7 * place)
            if byte < 128:
                self.rest = self.rest[place + 1 :]
                return value
        raise MessageError("a variable-length number has no end")

    def _take(self, size: int) -> memoryview:
        if size > len(self.rest):
            raise MessageError(f"a field of {size} bytes has only {len(self.rest)} bytes")
        taken, self.rest = self.rest[:size], self.rest[size:]
        return taken
