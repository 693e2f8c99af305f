"""Publishes a finished checkpoint: its name, the links to it, and its removal, each in one atomic step."""

from __future__ import annotations

import ctypes
import errno
import logging
import os
import shutil
from pathlib import Path

from ..._errors import CheckpointWriteError
from ...writing import atomic_write, sync
from ._checkpoint_layout import hidden_name

__all__ = ["discard", "point_to", "put_in_place"]

_log = logging.getLogger("towerpack_callbacks")

# Of Linux: <fcntl.h> and <linux/fs.h>.
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
# The errors of file systems and systems that cannot exchange two names.
_CANNOT_EXCHANGE = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP)


def put_in_place(aside: Path, path: Path) -> None:
    """Renames the directory `aside` to `path`, whatever is there; then flushes the directory around it.

    Raises:
        OSError: the system refused; the directory at `path` is as before.
    """
    if not os.path.lexists(path):
        os.rename(aside, path)
    elif _exchange(aside, path):
        shutil.rmtree(aside, ignore_errors=True)
    else:
        _replace(aside, path)
    sync(path.parent)


def point_to(pointer: Path, target: Path) -> None:
    """Makes the symbolic link `pointer` lead to `target`, in the same directory, in one atomic step.

    Raises:
        CheckpointWriteError: the system refused; the link leads where it did.
    """
    try:
        with atomic_write(pointer, hidden_name(pointer)) as aside:
            aside.symlink_to(target.name)
        sync(pointer.parent)
    except OSError as error:
        raise CheckpointWriteError(
            f"The link {pointer} could not be set to {target.name}: {error}. The checkpoints are whole. "
            "Free space or fix the permissions of its directory, then resume."
        ) from error


def discard(path: Path) -> None:
    """Removes an old checkpoint: first its name, at once, then its files. A failure is logged.

    Nothing is lost by a failure; if the disk is the reason, the next write fails, too.
    """
    try:
        # Not into a new directory: on a full disk there is no room for one.
        hidden = hidden_name(path)
        os.rename(path, hidden)
        shutil.rmtree(hidden)
    except OSError as error:
        _log.warning("The old checkpoint %s could not be removed: %s.", path, error)


def _exchange(one: Path, other: Path) -> bool:
    """Exchanges two names, and returns False where the system cannot."""
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
    """Replaces a directory in two steps, as rename() replaces none that has files in it."""
    old = hidden_name(path)
    os.rename(path, old)
    try:
        os.rename(aside, path)
    except OSError:
        os.rename(old, path)
        raise
    shutil.rmtree(old, ignore_errors=True)
