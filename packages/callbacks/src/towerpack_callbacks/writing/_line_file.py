"""The files of a run: their names, lines that survive a crash, and pictures."""

from __future__ import annotations

import logging
import mmap
import os
import re
import struct
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Generic, TypeVar, final

import numpy as np

from ._atomic_write import atomic_write

__all__ = [
    "ENVIRONMENT",
    "EXPLANATION",
    "LOG",
    "PNG_CHANNELS",
    "RUN_RECORD",
    "RUN_RECORD_FORMAT",
    "LineFile",
    "cut_lines_after",
    "cut_pictures_after",
    "encode_png",
    "find_pictures",
    "free_name",
    "prepare_lines",
    "write_picture",
]

_log = logging.getLogger("towerpack_callbacks")


Item = TypeVar("Item")


@final
class LineFile(Generic[Item]):
    """Appends complete lines. Lines that could not be written are kept and written with the next ones.

    Args:
        path: the file; it is created with the first line.
        encode: converts an item to a line, without the line end.
    """

    def __init__(self, path: Path, encode: Callable[[Item], str]) -> None:
        self._path = path
        self._encode = encode
        self._unwritten = b""
        self._descriptor: int | None = None

    def append(self, items: Iterable[Item]) -> None:
        """Writes a line for each item.

        Raises:
            OSError: the lines cannot be written. The file still ends with a complete line.
        """
        self._unwritten += "".join(f"{self._encode(item)}\n" for item in items).encode("utf-8")
        self._write()

    def _write(self) -> None:
        if self._descriptor is None:
            self._descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        size = os.fstat(self._descriptor).st_size
        try:
            written = os.write(self._descriptor, self._unwritten)
            while written < len(self._unwritten):
                written += os.write(self._descriptor, self._unwritten[written:])
        except OSError as error:
            os.ftruncate(self._descriptor, size)
            error.filename = str(self._path)  # a descriptor has no name
            raise
        self._unwritten = b""

    def close(self) -> None:
        """Writes the remaining lines and closes the file; the next line reopens it by name.

        Raises:
            OSError: the remaining lines cannot be written; the file is closed anyway.
        """
        try:
            if self._unwritten:
                self._write()
        finally:
            if self._descriptor is not None:
                descriptor, self._descriptor = self._descriptor, None
                os.close(descriptor)


def prepare_lines(path: Path) -> None:
    """Prepares the path of a file of lines that an earlier run may have left.

    A directory in its place is renamed. An incomplete last line, left by a killed process or a full disk,
    causes a warning.

    Raises:
        OSError: the directory cannot be renamed, or the file cannot be read.
    """
    if path.is_dir():
        aside = free_name(path)
        _log.warning("%s is a directory, expected a file; renamed it to %s.", path, aside.name)
        os.rename(path, aside)
    elif path.exists() and path.stat().st_size:
        with path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            if file.read() != b"\n":
                _log.warning("%s ends with an incomplete line of a killed run.", path)


def free_name(path: Path) -> Path:
    """Returns a free path in the same directory: the name with the first free number appended."""
    number = 1
    while os.path.lexists(candidate := path.with_name(f"{path.name}.{number}")):
        number += 1
    return candidate


def cut_lines_after(path: Path, is_kept: Callable[[bytes], bool]) -> None:
    """Truncates a file after the last line to keep, such as that of a checkpoint's step.

    Lines are checked from the end, so a long file costs no more than a short one. An incomplete last line is
    also checked, and completed with a line end if it is kept.
    """
    with path.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        if not size:
            return
        with mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) as content:
            end = _end_of_last_kept(content, is_kept)
            ends_well = not end or content[end - 1 : end] == b"\n"
        file.truncate(end)
        if not ends_well:
            file.seek(end)
            file.write(b"\n")


def _end_of_last_kept(content: mmap.mmap, is_kept: Callable[[bytes], bool]) -> int:
    end = len(content)
    while end > 0:
        start = content.rfind(b"\n", 0, end - 1) + 1
        if is_kept(content[start:end]):
            return end
        end = start
    return 0


_FOLDER = "images"
_FILE = re.compile(r"(\d+)\.png")
# PNG's colour type by number of channels: grey, grey with alpha, RGB, RGBA.
_COLOUR_TYPES = {1: 0, 2: 4, 3: 2, 4: 6}
PNG_CHANNELS = frozenset(_COLOUR_TYPES)


def encode_png(image: np.ndarray) -> bytes:
    """Encodes an image as a PNG.

    Args:
        image: uint8 of shape [height, width, channels], with 1 (grey), 2 (grey, alpha), 3 (RGB) or 4 (RGBA)
            channels.
    """
    height, width, channels = image.shape
    header = struct.pack(">IIBBBBB", width, height, 8, _COLOUR_TYPES[channels], 0, 0, 0)
    # Each row starts with its filter type: 0 for no filter.
    rows = np.concatenate([np.zeros((height, 1), np.uint8), image.reshape(height, -1)], axis=1)
    parts = [(b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes())), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(_png_chunk(kind, data) for kind, data in parts)


def _png_chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def write_picture(log_dir: Path, name: str, global_step: int, image: np.ndarray) -> Path:
    """Writes the picture of a step atomically, and returns its path.

    Args:
        log_dir: the run's directory.
        name: name of the series of pictures and of its folder.
        global_step: the number of finished steps.
        image: the image, as in `encode_png`.

    Raises:
        OSError: the file cannot be written.
    """
    path = log_dir / _FOLDER / name / f"{global_step:08d}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as aside:
        aside.write_bytes(encode_png(image))
    return path


def find_pictures(log_dir: Path) -> dict[str, list[tuple[int, Path]]]:
    """Returns steps and paths of the pictures in a run's directory, by name of the series."""
    folders = (log_dir / _FOLDER).glob("*/")
    found = {folder.name: _pictures_in(folder) for folder in sorted(folders)}
    return {name: pictures for name, pictures in found.items() if pictures}


def cut_pictures_after(log_dir: Path, name: str, last_step: int) -> None:
    """Removes the pictures of steps after a checkpoint, since those steps will run again."""
    for step, path in _pictures_in(log_dir / _FOLDER / name):
        if step > last_step:
            path.unlink()


def _pictures_in(folder: Path) -> list[tuple[int, Path]]:
    if not folder.is_dir():
        return []
    matches = [(_FILE.fullmatch(path.name), path) for path in folder.iterdir()]
    return sorted((int(match[1]), path) for match, path in matches if match and path.is_file())


RUN_RECORD = "run.jsonl"
RUN_RECORD_FORMAT = 1
LOG = "log.log"
EXPLANATION = "explain.txt"
ENVIRONMENT = "environment.txt"
