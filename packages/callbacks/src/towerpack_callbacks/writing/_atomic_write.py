"""Writes files atomically, or line by line."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import hashlib
import logging
import mmap
import os
import re
import secrets
import shutil
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar, final

import numpy as np

__all__ = [
    "ENVIRONMENT",
    "EXPLANATION",
    "LOG",
    "PNG_CHANNELS",
    "RUN_RECORD",
    "RUN_RECORD_FORMAT",
    "LineFile",
    "atomic_write",
    "cut_lines_after",
    "cut_pictures_after",
    "encode_png",
    "find_pictures",
    "free_name",
    "prepare_lines",
    "replace_directory",
    "sync",
    "write_archive",
    "write_picture",
]

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


_FOLDER = "images"
_FILE = re.compile(r"(\d+)\.png")
# PNG's colour type by number of channels: grey, grey with alpha, RGB, RGBA.
_COLOUR_TYPES = {1: 0, 2: 4, 3: 2, 4: 6}
PNG_CHANNELS = frozenset(_COLOUR_TYPES)


def encode_png(image: np.ndarray) -> bytes:
    """Encodes an image as a PNG.

    Args:
        image: uint8 of shape [height, width, channels], with 1 (grey), 2 (grey, alpha), 3 (RGB) or 4 (RGBA)
            channels.
    """
    height, width, channels = image.shape
    header = struct.pack(">IIBBBBB", width, height, 8, _COLOUR_TYPES[channels], 0, 0, 0)
    # Each row starts with its filter type: 0 for no filter.
    rows = np.concatenate([np.zeros((height, 1), np.uint8), image.reshape(height, -1)], axis=1)
    parts = [(b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes())), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(_png_chunk(kind, data) for kind, data in parts)


def _png_chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def write_picture(log_dir: Path, name: str, global_step: int, image: np.ndarray) -> Path:
    """Writes the picture of a step atomically, and returns its path.

    Args:
        log_dir: the run's directory.
        name: name of the series of pictures and of its folder.
        global_step: the number of finished steps.
        image: the image, as in `encode_png`.

    Raises:
        OSError: the file cannot be written.
    """
    path = log_dir / _FOLDER / name / f"{global_step:08d}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as aside:
        aside.write_bytes(encode_png(image))
    return path


def find_pictures(log_dir: Path) -> dict[str, list[tuple[int, Path]]]:
    """Returns steps and paths of the pictures in a run's directory, by name of the series."""
    folders = (log_dir / _FOLDER).glob("*/")
    found = {folder.name: _pictures_in(folder) for folder in sorted(folders)}
    return {name: pictures for name, pictures in found.items() if pictures}


def cut_pictures_after(log_dir: Path, name: str, last_step: int) -> None:
    """Removes the pictures of steps after a checkpoint, since those steps will run again."""
    for step, path in _pictures_in(log_dir / _FOLDER / name):
        if step > last_step:
            path.unlink()


def _pictures_in(folder: Path) -> list[tuple[int, Path]]:
    if not folder.is_dir():
        return []
    matches = [(_FILE.fullmatch(path.name), path) for path in folder.iterdir()]
    return sorted((int(match[1]), path) for match, path in matches if match and path.is_file())


RUN_RECORD = "run.jsonl"
RUN_RECORD_FORMAT = 1
LOG = "log.log"
EXPLANATION = "explain.txt"
ENVIRONMENT = "environment.txt"
