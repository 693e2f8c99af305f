"""`create_file` and `create_path`: atomic creation of files."""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import shutil
import stat
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from .._errors import ArgumentError
from ._printable_url import URL, as_url, is_local

__all__ = [
    "NOT_INHERITED",
    "NO_LINK",
    "create_file",
    "create_path",
    "lock_file",
    "locked_folder",
    "read_at",
    "read_into",
    "remove_unlocked",
]

try:
    import fcntl
except ModuleNotFoundError:  # Windows
    fcntl = None  # type: ignore[assignment]


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


_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


@contextmanager
def create_file(path: URL) -> Iterator[IO[bytes]]:
    """Creates or replaces a file atomically: a reader sees the old file or the new one, complete.

    The bytes go to a hidden file in the same folder. It is flushed to the disk and renamed when the block
    ends, and removed if the block ends with an error. The next writer of the same file removes leftovers of
    killed writers. A symbolic link is followed and kept.

    Args:
        path: path of a local file; missing folders are created.

    Raises:
        ArgumentError: `path` is the URL of a remote file, or is not a regular file.
        OSError: the file cannot be written; an existing file is unchanged.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with create_file(f"{folder}/data.bin") as file:
        ...         _ = file.write(b"all of it")
        ...     os.listdir(folder)
        ['data.bin']
    """
    with _beside(path) as (_, descriptor), open(descriptor, "w+b", closefd=False) as file:
        yield file


@contextmanager
def create_path(path: URL) -> Iterator[str]:
    """Creates a file atomically, like `create_file`, for libraries that write to paths.

    Args:
        path: path of a local file; missing folders are created.

    Yields:
        the path of an empty file to write and to close before the block ends. It is locked by `flock`: a
        library that locks the files it writes must not do so here.

    Raises:
        ArgumentError: `path` is the URL of a remote file, or is not a regular file.
        OSError: the file cannot be written; an existing file is unchanged.
    """
    with _beside(path) as (temporary, _):
        yield temporary


@contextmanager
def locked_folder(parent: str, prefix: str) -> Iterator[str]:
    """Creates a folder for the block, and removes leftover folders of `prefix` from killed processes.

    Raises:
        OSError: the folder cannot be created.
    """
    _remove_leftovers(Path(parent), prefix)
    while True:
        folder = tempfile.mkdtemp(".tmp", prefix, parent)
        descriptor = os.open(folder, os.O_RDONLY | NOT_INHERITED)
        if _lock(descriptor, folder):
            break
    try:
        yield folder
    finally:
        os.close(descriptor)
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _beside(path: URL) -> Iterator[tuple[str, int]]:
    """Yields path and descriptor of a new file, which replaces `path` after a clean end."""
    target = _target(path)
    old = _replaceable(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    prefix = f".towerpack-{hashlib.sha256(os.fsencode(target.name)).hexdigest()[:16]}-"
    _remove_leftovers(target.parent, prefix)
    temporary, descriptor = _locked(
        target.parent / prefix, 0o666 if old is None else stat.S_IMODE(old.st_mode)
    )
    try:
        yield temporary, descriptor
        if old is not None:
            _keep_owner_and_mode(descriptor, old)
        os.fsync(descriptor)
        os.replace(temporary, target)
    except BaseException as error:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        if isinstance(error, OSError) and error.errno in _FULL and error.filename is None:
            error.filename = str(target)
        raise
    finally:
        os.close(descriptor)
    _flush_names(target.parent)


def _target(path: URL) -> Path:
    text = as_url("path", path)
    if not is_local(text):
        raise ArgumentError(
            f"path={path!r}: expected a local path. Write a local file, and copy it with the store's tool"
        )
    target = os.path.realpath(text)
    if os.path.islink(target):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), text)
    return Path(target)


def _replaceable(target: Path) -> os.stat_result | None:
    """Returns the status of the writable file to replace; `None` for a new file."""
    try:
        old = target.stat()
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(old.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(target))
    if not stat.S_ISREG(old.st_mode):
        raise ArgumentError(
            f"path={str(target)!r}: expected a regular file or a new one; it is a device or pipe"
        )
    if not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(target))
    return old


def _locked(prefix: Path, mode: int) -> tuple[str, int]:
    """Creates a new file, locked until its descriptor is closed or its process ends."""
    # The system applies the umask to a new file. Python reads it only by setting it, for all threads at once.
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | NOT_INHERITED
    while True:
        temporary = f"{prefix}{secrets.token_hex(8)}.tmp"
        descriptor = os.open(temporary, flags, mode)
        if _lock(descriptor, temporary):
            return temporary, descriptor


def _lock(descriptor: int, path: str) -> bool:
    """Locks a new file or folder; returns False if another writer has removed it as a leftover."""
    with suppress(OSError):  # a file system without locks: nothing is removed there
        lock_file(descriptor, wait=True)
    if os.path.exists(path):
        return True
    os.close(descriptor)
    return False


def _remove_leftovers(folder: Path, prefix: str) -> None:
    """Removes files of killed writers, which are not locked."""
    with suppress(OSError):  # such as a folder that is writable but not listable
        for name in os.listdir(folder):
            if name.startswith(prefix) and name.endswith(".tmp"):
                with suppress(OSError):
                    remove_unlocked(folder / name)


def remove_unlocked(path: Path) -> None:
    """Removes an unfinished file of `create_file`, or a `locked_folder`, if its writer has ended.

    Raises:
        OSError: the writer is still running, or the file cannot be removed.
    """
    is_folder = path.is_dir()
    mode = os.O_RDONLY if is_folder else os.O_RDWR
    descriptor = os.open(path, mode | NO_LINK | NOT_INHERITED)
    try:
        lock_file(descriptor, wait=False)
        if is_folder:
            shutil.rmtree(path)
        else:
            os.unlink(path)
    finally:
        os.close(descriptor)


def _keep_owner_and_mode(descriptor: int, old: os.stat_result) -> None:
    with suppress(PermissionError):  # the owner of a file may be changed only by the superuser
        os.fchown(descriptor, old.st_uid, old.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(old.st_mode))


def _flush_names(folder: Path) -> None:
    with suppress(OSError):  # the file is renamed already; some file systems cannot flush a folder
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
