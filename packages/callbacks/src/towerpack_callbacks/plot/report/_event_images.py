"""Finds images in TensorBoard's event files without TensorFlow.

A file is a sequence of records (8 bytes of length, 4 of its checksum, the record, 4 of the record's
checksum). A record is a protocol buffer, `Event` (tensorflow/core/util/event.proto), of which this module
reads a few fields.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import final

import attrs

from .._read_runs import RunError

__all__ = ["EmbeddedImage", "find_event_images"]

# Numbers of fields.
_STEP, _SUMMARY, _SESSION_LOG = 2, 5, 7  # of an Event
_VALUE, _TAG, _IMAGE, _ENCODED = 1, 1, 4, 4  # of a Summary, its values, and an image
# Kinds of fields: a number of variable length, 8 bytes, bytes with their length, 4 bytes.
_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5

_Span = tuple[int, int]


@final
@attrs.frozen
class EmbeddedImage:
    """An encoded image within a file.

    Attributes:
        path: the file.
        offset, size: position and size of the image, in bytes.
    """

    path: Path
    offset: int
    size: int

    def read_bytes(self) -> bytes:
        """Returns the encoded image."""
        with self.path.open("rb") as file:
            file.seek(self.offset)
            return file.read(self.size)


def find_event_images(log_dir: Path) -> dict[str, list[tuple[int, EmbeddedImage]]]:
    """Returns steps and images of the event files in a directory, by tag.

    Images that an interrupted run wrote after the checkpoint of its resume are left out. Reading a file stops
    at its first damaged record.

    Raises:
        RunError: a file cannot be read.
    """
    found: dict[str, dict[int, EmbeddedImage]] = {}
    for path in sorted(filter(Path.is_file, log_dir.glob("events.out.tfevents.*"))):
        try:
            _read(path, found)
        except OSError as error:
            raise RunError(f"{path} cannot be read: {error}") from error
    return {tag: sorted(images.items()) for tag, images in sorted(found.items()) if images}


def _read(path: Path, found: dict[str, dict[int, EmbeddedImage]]) -> None:
    if not path.stat().st_size:
        return
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        for record in _records(content):
            try:
                _take(path, content, record, found)
            except (ValueError, IndexError):  # damaged, as are the following records
                return


def _records(content: mmap.mmap) -> Iterator[_Span]:
    start = 0
    while start + 16 <= len(content):
        (size,) = struct.unpack_from("<Q", content, start)
        begin, end = start + 12, start + 12 + size
        if end + 4 > len(content):
            return
        yield begin, end
        start = end + 4


def _take(path: Path, content: mmap.mmap, event: _Span, found: dict[str, dict[int, EmbeddedImage]]) -> None:
    fields = list(_fields(content, event))
    step = next((value for number, value in fields if number == _STEP and isinstance(value, int)), 0)
    for number, value in fields:
        if isinstance(value, int):
            continue
        if number == _SESSION_LOG:  # a resumed run: earlier images of these steps are void
            for images in found.values():
                for later in [old for old in images if old >= step]:
                    del images[later]
        elif number == _SUMMARY:
            for tag, (start, end) in _images(content, value):
                found.setdefault(tag, {})[step] = EmbeddedImage(path, start, end - start)


def _images(content: mmap.mmap, summary: _Span) -> Iterator[tuple[str, _Span]]:
    for value in _parts(content, summary, _VALUE):
        for tag in _parts(content, value, _TAG):
            for image in _parts(content, value, _IMAGE):
                for encoded in _parts(content, image, _ENCODED):
                    yield content[slice(*tag)].decode("utf-8", "replace"), encoded


def _parts(content: mmap.mmap, span: _Span, wanted: int) -> Iterator[_Span]:
    for number, value in _fields(content, span):
        if number == wanted and not isinstance(value, int):
            yield value


def _fields(content: mmap.mmap, span: _Span) -> Iterator[tuple[int, int | _Span]]:
    """Yields number and value of each field: a number, or the position of its bytes."""
    place, end = span
    while place < end:
        key, place = _varint(content, place)
        kind, number = key & 7, key >> 3
        if kind == _VARINT:
            value, place = _varint(content, place)
            yield number, value
            continue
        size = {_EIGHT: 8, _FOUR: 4}.get(kind)
        if kind == _BYTES:
            size, place = _varint(content, place)
        if size is None or place + size > end:
            raise ValueError(f"field {number} of kind {kind} does not fit")
        yield number, (place, place + size)
        place += size


def _varint(content: mmap.mmap, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = content[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
        shift += 7
        if shift > 63:
            raise ValueError("a number of more than ten bytes")
