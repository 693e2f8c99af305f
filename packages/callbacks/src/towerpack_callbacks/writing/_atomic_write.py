"""Replaces files and directories atomically, so that a reader sees either the old or the new one."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import hashlib
import os
import secrets
import shutil
import stat
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["atomic_write", "replace_directory", "sync", "write_archive"]


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


def write_archive(path: Path, arrays: Mapping[str, np.ndarray[Any, Any]], durable: bool = True) -> None:
    """Writes a `.npz` archive atomically, replacing an existing one; `np.load` reads it.

    Types that NumPy does not have, such as bfloat16, become float32.

    Args:
        path: the path of the archive.
        arrays: arrays by name.
        durable: whether the old or new file also survives a crash of the machine; see `atomic_write`.

    Raises:
        TypeError: an array is masked or contains Python objects, such as text.
        OSError: the file cannot be written; an existing file is unchanged.
    """
    objects = sorted(
        name
        for name, array in arrays.items()
        if array.dtype.hasobject or isinstance(array, np.ma.MaskedArray)
    )
    if objects:
        raise TypeError(
            "A NumPy archive stores plain arrays; received masked arrays, or arrays of objects or text: "
            f"{', '.join(objects)}. Leave them out."
        )
    with atomic_write(path, durable=durable) as aside:
        _write(aside, arrays)


def _write(path: Path, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
    # Not with np.savez, which takes names as keyword arguments: a variable may be called "file".
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            # NumPy cannot read dtypes of other packages without these packages.
            kept = array.astype(np.float32) if array.dtype.isbuiltin == 2 else array
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, kept, allow_pickle=False)


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
