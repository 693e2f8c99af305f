"""File functions that POSIX systems have and Windows has not."""

from __future__ import annotations

import os
import threading

try:
    import fcntl
except ModuleNotFoundError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["NOT_INHERITED", "NO_LINK", "lock_file", "read_at", "read_into"]

# Flags of `os.open`: refuse a symbolic link, and close the file in programs that this process starts. Windows
# translates line ends in a file opened without O_BINARY.
NO_LINK: int = getattr(os, "O_NOFOLLOW", 0)
NOT_INHERITED: int = getattr(os, "O_CLOEXEC", getattr(os, "O_NOINHERIT", 0) | getattr(os, "O_BINARY", 0))
_SEEKS = threading.Lock()


def lock_file(descriptor: int, *, wait: bool) -> None:
    """Locks an open file or folder until its descriptor is closed or its process ends.

    Args:
        descriptor: of the file.
        wait: wait until another process releases its lock.

    Raises:
        BlockingIOError: another process holds the lock, and `wait` is false.
        OSError: the system or the file system has no locks.
    """
    if fcntl is None:
        raise OSError("this system has no file locks: Python's module fcntl is missing")
    fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)


def read_at(descriptor: int, size: int, offset: int) -> bytes:
    """Returns at most `size` bytes at an offset; several threads may read one file."""
    if hasattr(os, "pread"):
        return os.pread(descriptor, size, offset)
    with _SEEKS:
        os.lseek(descriptor, offset, os.SEEK_SET)
        return os.read(descriptor, size)


def read_into(descriptor: int, target: memoryview, offset: int) -> int:
    """Fills memory from an offset, and returns the number of bytes read."""
    if hasattr(os, "preadv"):
        return os.preadv(descriptor, [target], offset)
    part = read_at(descriptor, len(target), offset)
    target[: len(part)] = part
    return len(part)
