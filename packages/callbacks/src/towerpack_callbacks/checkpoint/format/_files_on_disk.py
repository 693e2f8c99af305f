"""The files of a checkpoint as the disk holds them: which it shares with others, and what they take."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

__all__ = ["disk_usage", "files_below", "is_shared", "readable_size"]

_UNITS = ("bytes", "kB", "MB", "GB", "TB")


def files_below(directory: Path) -> Iterator[Path]:
    """Yields all that is no directory, in a directory and those in it, by name; symbolic links, too.

    What is taken away meanwhile is left out: a run that goes on may do so.

    Raises:
        OSError: the directory cannot be read.
    """
    with contextlib.suppress(FileNotFoundError):
        for entry in sorted(os.scandir(directory), key=lambda entry: entry.name):
            if entry.is_dir(follow_symlinks=False):
                yield from files_below(Path(entry.path))
            else:
                yield Path(entry.path)


def is_shared(file: Path) -> bool:
    """Returns whether a file has another name, too: a hard link to what somebody else has written.

    Its content is the affair of who wrote it, and may be many times what is new in a checkpoint. So it is
    neither flushed to the disk nor given a checksum here.
    """
    return file.stat().st_nlink > 1


def disk_usage(directories: Iterable[Path]) -> int:
    """Returns the bytes that directories hold on the disk together; a file with several names counts once."""
    held = {}
    for directory in directories:
        for file in files_below(directory):
            with contextlib.suppress(FileNotFoundError):
                status = file.lstat()
                held[status.st_dev, status.st_ino] = status.st_blocks * 512
    return sum(held.values())


def readable_size(size: float) -> str:
    """Returns a number of bytes in words, such as "7.31 GB"."""
    unit = 0
    while size >= 1000 and unit < len(_UNITS) - 1:
        size, unit = size / 1000, unit + 1
    return f"{size:.3g} {_UNITS[unit]}"
