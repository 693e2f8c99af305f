"""Replaces a directory by another one, atomically if the system supports it."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
from pathlib import Path

from ._atomic_write import sync

__all__ = ["replace_directory"]

# Constants of Linux: <fcntl.h> and <linux/fs.h>.
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
# The errors of systems and file systems that cannot exchange two names.
_CANNOT_EXCHANGE = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP)


def replace_directory(aside: Path, path: Path) -> None:
    """Renames the directory `aside` to `path`, replacing an existing one; then flushes the parent directory.

    Raises:
        OSError: the operating system reported an error; the directory at `path` is unchanged.
    """
    if not os.path.lexists(path):
        os.rename(aside, path)
    elif _exchange(aside, path):
        shutil.rmtree(aside, ignore_errors=True)
    else:
        _replace(aside, path)
    sync(path.parent)


def _exchange(one: Path, other: Path) -> bool:
    """Exchanges two names; returns False if the system does not support it."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:  # a C library before glibc 2.28
        return False
    if rename(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in _CANNOT_EXCHANGE:
        return False
    raise OSError(code, os.strerror(code), str(other))


def _replace(aside: Path, path: Path) -> None:
    """Replaces a directory in two steps, because rename() cannot replace a non-empty directory."""
    old = aside.with_name(f"{aside.name}.old")
    os.rename(path, old)
    try:
        os.rename(aside, path)
    except OSError:
        os.rename(old, path)
        raise
    shutil.rmtree(old, ignore_errors=True)
