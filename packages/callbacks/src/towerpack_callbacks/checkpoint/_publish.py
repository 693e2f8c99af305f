"""Gives a finished directory its name, and takes it away, each in one step that nothing can interrupt."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
from pathlib import Path

from ._checkpoint_layout import hidden_name

__all__ = ["discard", "put_in_place", "sync"]

# Of Linux: <fcntl.h> and <linux/fs.h>.
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
# What a file system, or a system, says that cannot exchange two names.
_CANNOT_EXCHANGE = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP)


def put_in_place(aside: Path, path: Path) -> None:
    """Renames the directory `aside` to `path`, whatever is there; then flushes the directory around it.

    Raises:
        OSError: it failed; what was at `path` is still there.
    """
    if not os.path.lexists(path):
        os.rename(aside, path)
    elif _exchange(aside, path):
        shutil.rmtree(aside, ignore_errors=True)
    else:
        _replace(aside, path)
    sync(path.parent)


def discard(path: Path) -> None:
    """Removes a directory: first its name, at once, then what is in it.

    Raises:
        OSError: it, or a part of it, could not be removed.
    """
    # Not into a new directory: on a full disk there is no room for one.
    hidden = hidden_name(path)
    os.rename(path, hidden)
    shutil.rmtree(hidden)


def sync(path: Path) -> None:
    """Flushes a file, or the names in a directory, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _exchange(one: Path, other: Path) -> bool:
    """Exchanges two names; False if that is not possible here."""
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
    """In two steps, as rename() replaces no directory that has files in it."""
    old = hidden_name(path)
    os.rename(path, old)
    try:
        os.rename(aside, path)
    except OSError:
        os.rename(old, path)
        raise
    shutil.rmtree(old, ignore_errors=True)
