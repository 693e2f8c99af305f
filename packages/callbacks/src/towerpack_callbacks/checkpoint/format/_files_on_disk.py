"""The files of a checkpoint on the disk: hard links and disk usage."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

__all__ = ["disk_usage", "files_below", "is_shared", "readable_size"]

_UNITS = ("bytes", "kB", "MB", "GB", "TB")


def files_below(directory: Path) -> Iterator[Path]:
    """Yields all files and symbolic links below a directory, sorted by name.

    Files that disappear during the search are left out: a running training may remove files.

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
    """Returns whether a file is a hard link with several names, written by another owner.

    Its writer is responsible for its content, which may be much larger than the new part of a checkpoint.
    Therefore it is neither flushed to the disk nor given a checksum here.
    """
    return file.stat().st_nlink > 1


def disk_usage(directories: Iterable[Path]) -> int:
    """Returns the total disk usage of directories in bytes; a file with several names counts once."""
    held = {}
    for directory in directories:
        for file in files_below(directory):
            with contextlib.suppress(FileNotFoundError):
                status = file.lstat()
                held[status.st_dev, status.st_ino] = status.st_blocks * 512
    return sum(held.values())


def readable_size(size: float) -> str:
    """Formats a number of bytes, such as "7.31 GB"."""
    unit = 0
    while size >= 1000 and unit < len(_UNITS) - 1:
        size, unit = size / 1000, unit + 1
    return f"{size:.3g} {_UNITS[unit]}"
