"""Appends lines to a file that remains readable if the process is killed."""

from __future__ import annotations

import logging
import mmap
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Generic, TypeVar, final

__all__ = ["LineFile", "cut_lines_after", "free_name", "prepare_lines"]

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
