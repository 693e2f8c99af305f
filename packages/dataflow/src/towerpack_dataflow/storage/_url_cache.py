"""`UrlCache`: the content of remote files, stored on a disk within a size limit."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import stat
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import final

from .. import _argument_checks as arguments
from .._errors import CacheError, StorageError
from ._atomic_file import NO_LINK, NOT_INHERITED, create_file, lock_file, remove_unlocked
from ._printable_url import URL
from ._stored_file import StoredBytes, StoredFile

__all__ = ["UrlCache"]

_BLOCK = 2**20
_CHECK = 4  # bytes of the checksum after each block
_GIB = 2**30
_BETWEEN_SWEEPS = 16  # a process removes old files after adding this fraction of the limit
_LONGEST_NAME = 200  # bytes; file systems allow 255, and names are longer during the write
_MARKER = ".towerpack-cache"
_OWN = re.compile(r"[0-9a-f]{32}(/[0-9]+|/\.[^/]+\.tmp|\.whole/[^/]+)", re.DOTALL)
_log = logging.getLogger("towerpack_dataflow")


@final
class UrlCache:
    """Stores the content of remote files in a folder shared by processes.

    It holds blocks of 1 MiB, each with a checksum, and whole files for `local_path`. Each is written under
    another name and then renamed, so that a killed process leaves no incomplete data in use. A remote file
    that changes counts as another file; a file without reliable versions is not stored. When the limit is
    reached, the least recently used blocks and files are removed.

    If the cache cannot be written, for example on a full or read-only disk, it logs a warning, and files are
    read remotely.

    Args:
        folder: the folder; by default, `$TOWERPACK_CACHE`, or `~/.cache/towerpack`. It must be new, empty, or
            a cache. Other files in it are never removed.
        max_bytes: the size limit, 10 GiB by default. Each writing process may exceed it by a sixteenth.

    Raises:
        ArgumentError: `max_bytes` is not positive.
        CacheError: the folder contains other files; nothing in it is changed.

    Example:
        ```python
        cache = UrlCache("/scratch/cache", max_bytes=100 * 2**30)
        flow = TarData(open_url("https://example.org/train.tar", cache), decode)
        ```
    """

    def __init__(self, folder: URL | None = None, max_bytes: int = 10 * _GIB) -> None:
        """Creates the folder."""
        self._max_bytes = arguments.count("max_bytes", max_bytes)
        place = (
            os.environ.get("TOWERPACK_CACHE", "~/.cache/towerpack") if folder is None else os.fspath(folder)
        )
        self._folder = Path(place).expanduser().absolute()
        self._writable = True
        self._added = self._max_bytes  # the first addition checks the limit: others may have filled it
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            if not (self._folder / _MARKER).exists():
                _check_is_cache(self._folder)
                (self._folder / _MARKER).touch()
        except OSError as error:
            self._give_up(error)

    def over(self, name: str, source: StoredBytes) -> StoredBytes:
        """Returns a source of the same bytes that reads each block of `source` once, if it has versions.

        Args:
            name: name of the file, without credentials.
            source: source of its bytes.
        """
        return _CachedBytes(self, _digest(name, source.version), source) if source.lasting else source

    def whole(self, file: StoredFile) -> str:
        """Returns the path of a complete copy; creates it if missing.

        Raises:
            StorageError: the file is larger than the limit or cannot be read, or the copy cannot be written.
        """
        path = self._folder / f"{_digest(file.lasting_url, file.version)}.whole" / _file_name(file.name)
        if not (file.lasting and _touch(path)):
            self._check_size(file.name, file.size)
            offsets = range(0, file.size, _BLOCK)
            parts = (file.read(offset, min(_BLOCK, file.size - offset)) for offset in offsets)
            self._copy(file.name, parts, path)
        return str(path)

    def made(self, name: str, version: str, make: Callable[[], Iterator[bytes]]) -> str:
        """Returns the path of a file derived from another one; creates it if missing.

        Args:
            name: name of the other file, without credentials.
            version: a value that changes with the other file.
            make: yields the bytes.

        Raises:
            StorageError: the size exceeds the limit, or the file cannot be written.
        """
        path = self._folder / f"{_digest(name, version)}.whole" / _file_name(name)
        if not _touch(path):
            self._copy(name, make(), path)
        return str(path)

    def _copy(self, name: str, parts: Iterator[bytes | memoryview], path: Path) -> None:
        reading, size = False, 0
        try:
            with create_file(path) as out:
                while True:
                    reading = True
                    part = next(parts, None)
                    if part is None:
                        break
                    size += len(part)
                    self._check_size(name, size)
                    reading = False
                    out.write(part)
                reading = False
            self._count(size)
        except OSError as error:
            if reading:
                raise
            raise StorageError(
                f"{name} cannot be copied into the cache in {self._folder}: {error.strerror or error}. Use "
                "a UrlCache in a writable folder with room, or set TOWERPACK_CACHE to one"
            ) from error

    def _check_size(self, name: str, size: int) -> None:
        if size > self._max_bytes:
            raise StorageError(
                f"{name} has {size} bytes, and the limit of the cache in {self._folder} is "
                f"{self._max_bytes}; use a UrlCache with a larger max_bytes"
            )

    def get(self, block: str) -> bytes | None:
        """Returns a block; None if it is missing or damaged."""
        path = self._folder / block
        try:
            content = path.read_bytes()
        except OSError:
            return None
        if zlib.crc32(memoryview(content)[:-_CHECK]) != int.from_bytes(content[-_CHECK:], "little"):
            with suppress(OSError):
                path.unlink()
            return None
        _touch(path)
        return content[:-_CHECK]

    def put(self, block: str, content: memoryview) -> None:
        """Stores a block if it can be written."""
        if not self._writable:
            return
        try:
            with create_file(self._folder / block) as out:
                out.write(content)
                out.write(zlib.crc32(content).to_bytes(_CHECK, "little"))
            self._count(len(content) + _CHECK)
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        self._writable = False
        _log.warning(
            "The cache in %s cannot be written to (%s): files are read remotely, which is slower. "
            "Free space, fix its permissions, or set TOWERPACK_CACHE to another folder.",
            self._folder,
            error.strerror or error,
        )

    def _count(self, size: int) -> None:
        self._added += size
        if self._added * _BETWEEN_SWEEPS >= self._max_bytes:
            self._sweep()
            self._added = 0

    def _sweep(self) -> None:
        lock = os.open(self._folder / ".lock", os.O_RDWR | os.O_CREAT | NO_LINK | NOT_INHERITED, 0o666)
        try:
            lock_file(lock, wait=True)
            entries = sorted(_entries(self._folder))
            excess = sum(size for _, size, _ in entries) - self._max_bytes
            for _, size, path in entries:
                if excess <= 0:
                    break
                with suppress(FileNotFoundError):
                    os.unlink(path)
                excess -= size
        finally:
            os.close(lock)


@final
class _CachedBytes:
    """Bytes with each block read from its source once."""

    def __init__(self, cache: UrlCache, key: str, source: StoredBytes) -> None:
        self.descriptor: int | None = None
        self.cache, self.size, self.version, self.lasting = cache, source.size, source.version, True
        self._key, self._source = key, source

    def read(self, offset: int, size: int) -> memoryview:
        first, last = offset // _BLOCK, (offset + size - 1) // _BLOCK
        blocks = [self._block(number) for number in range(first, last + 1)]
        begin = offset - first * _BLOCK
        joined = blocks[0] if len(blocks) == 1 else b"".join(blocks)
        return memoryview(joined)[begin : begin + size]

    def check(self) -> None:
        """Does nothing: each read refers to the opened version."""

    def close(self) -> None:
        self._source.close()

    def _block(self, number: int) -> bytes | memoryview:
        name = f"{self._key}/{number}"
        length = min(_BLOCK, self.size - number * _BLOCK)
        kept = self.cache.get(name)
        if kept is not None and len(kept) == length:
            return kept
        content = self._source.read(number * _BLOCK, length)
        self.cache.put(name, content)
        return content


def _digest(name: str, version: str) -> str:
    return hashlib.sha256(f"{name}\n{version}".encode()).hexdigest()[:32]


def _file_name(name: str) -> str:
    """Returns a file name from the last part of a URL, with the extension that libraries need."""
    last = name.partition("?")[0].rpartition("/")[2]
    return os.fsdecode(os.fsencode(last)[-_LONGEST_NAME:]).lstrip(".") or "file"


def _touch(path: Path) -> bool:
    """Marks a file as used now and returns whether it exists."""
    with suppress(OSError):  # on a read-only disk, or of another user
        # The modification time stays: it is part of the file's version for its readers.
        os.utime(path, ns=(time.time_ns(), os.stat(path).st_mtime_ns))
    return path.is_file()


def _check_is_cache(folder: Path) -> None:
    """Checks that a folder without a marker is empty, or belongs to a cache of an earlier release."""
    for path in _files(folder):
        name = os.path.relpath(path, folder)
        if not _OWN.fullmatch(name) and name != ".lock":
            raise CacheError(
                f"{folder} is not a folder of a UrlCache: it contains {name!r}, which no cache has made; "
                "expected a new or an empty folder. Use another one, or set TOWERPACK_CACHE to another one"
            )


def _files(folder: Path) -> Iterator[str]:
    """Lists the paths in a folder and its direct subfolders: a cache has no deeper ones."""
    for path in _paths(str(folder)):
        is_folder = os.path.isdir(path) and not os.path.islink(path)
        yield from _paths(path) if is_folder else [path]


def _paths(folder: str) -> list[str]:
    return [os.path.join(folder, name) for name in os.listdir(folder)]


def _entries(folder: Path) -> list[tuple[int, int, str]]:
    """Lists time of the last use, size and path of all removable files; removes leftovers.

    Files of other programs and symbolic links are left out.
    """
    found = []
    for path in _files(folder):
        with suppress(OSError):
            status = os.lstat(path)
            if not (stat.S_ISREG(status.st_mode) and _OWN.fullmatch(os.path.relpath(path, folder))):
                continue
            if not path.endswith(".tmp"):
                found.append((max(status.st_atime_ns, status.st_mtime_ns), status.st_size, path))
            else:
                remove_unlocked(Path(path))
    return found
