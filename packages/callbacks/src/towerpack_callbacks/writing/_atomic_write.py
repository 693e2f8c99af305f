"""Replaces a file atomically, so that a reader sees either the old or the new one."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

__all__ = ["atomic_write", "sync"]

_OF_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
# The errors of mounts without directory files, such as object stores.
_CANNOT_FLUSH = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP)


@contextlib.contextmanager
def atomic_write(path: Path, aside: Path | None = None, durable: bool = False) -> Iterator[Path]:
    """Yields the path of a new file, which replaces the one at `path` when the block ends without an error.

    After an error the new file is removed, and the one at `path` is unchanged.

    Args:
        path: the file to replace or create. The target of a symbolic link is replaced, and keeps its mode.
        aside: the temporary path, in the same directory; `path` itself is then replaced, even if it is a
            link. None: an empty file with a hidden name, which the next writer of `path` removes if this
            process is killed.
        durable: flush the content to the disk before the rename, so that the old or the new file also
            survives a crash of the machine.

    Raises:
        OSError: the file cannot be written or renamed.

    Example:
        ```python
        with atomic_write(Path("curves.html")) as aside:
            aside.write_text(page)
        ```
    """
    if aside is not None:
        with _replacing(path, aside, durable):
            yield aside
        return
    target = Path(os.path.realpath(path))
    mode = _mode_of(target)
    aside, descriptor = _locked_aside(target, 0o666 if mode is None else mode)
    try:
        with _replacing(target, aside, durable):
            yield aside
            if mode is not None:
                aside.chmod(mode)
    finally:
        os.close(descriptor)


def sync(path: Path) -> None:
    """Flushes a file, or the entries of a directory, to the disk; some mounts do not support directories."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _CANNOT_FLUSH or not path.is_dir():
            raise
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _replacing(path: Path, aside: Path, durable: bool) -> Iterator[None]:
    try:
        yield
        if durable:
            sync(aside)
        os.replace(aside, path)
    except BaseException as error:
        aside.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno in _OF_DISK and error.filename is None:
            error.filename = str(path)  # a descriptor has no name
        raise


def _mode_of(target: Path) -> int | None:
    """Returns the mode of the file to replace; None for a new one."""
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(mode):
        code = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
        raise OSError(code, f"{os.strerror(code)} (expected a file, or a new path)", str(target))
    return stat.S_IMODE(mode)


def _locked_aside(target: Path, mode: int) -> tuple[Path, int]:
    """Makes an empty file in the target's directory, locked until its descriptor is closed."""
    prefix = f".towerpack-{hashlib.sha256(os.fsencode(target.name)).hexdigest()[:16]}-"
    _remove_leftovers(target.parent, prefix)
    while True:
        aside = target.with_name(f"{prefix}{secrets.token_hex(8)}.writing")
        descriptor = os.open(aside, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with contextlib.suppress(OSError):  # no removal on file systems without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if aside.exists():
            return aside, descriptor
        os.close(descriptor)  # another writer removed it as a leftover before it was locked


def _remove_leftovers(directory: Path, prefix: str) -> None:
    """Removes the files of killed writers: those that are not locked."""
    for name in os.listdir(directory):
        if name.startswith(prefix) and name.endswith(".writing"):
            with contextlib.suppress(OSError):
                _remove_unlocked(directory / name)


def _remove_unlocked(path: Path) -> None:
    descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()
    finally:
        os.close(descriptor)
