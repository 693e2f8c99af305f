"""`UrlCache`: what was read of files elsewhere, kept on a disk within a budget."""

from __future__ import annotations

import fcntl
import hashlib
import os
import time
import zlib
from contextlib import suppress
from pathlib import Path
from typing import final

from .. import _argument_checks as arguments
from .._errors import StorageError
from ._atomic_file import create_file
from ._printable_url import URL
from ._stored_file import StoredBytes, StoredFile

__all__ = ["UrlCache"]

_BLOCK = 2**20
_CHECK = 4  # bytes of a checksum behind each block
_GIB = 2**30
_BETWEEN_SWEEPS = 16  # a process sweeps when it has added this part of the budget
_ABANDONED_NS = 3600 * 10**9


@final
class UrlCache:
    """Keeps what was read of files that are not local, in a folder that processes share.

    It has blocks of 1 MiB, each with a checksum, and whole files for `local_path`. Each is written under
    another name and then renamed, so that a process that is killed leaves nothing that is served. A file that
    has changed where it lies is another file. When the budget is full, what was unused for longest goes.

    Args:
        folder: where; if not given, `$TOWERPACK_CACHE`, or `~/.cache/towerpack`. Nothing else may lie there.
        max_bytes: the budget, 10 GiB if not given. Each process that adds may exceed it by a sixteenth.

    Raises:
        ArgumentError: `max_bytes` is not positive.
        OSError: the folder cannot be made.
    """

    def __init__(self, folder: URL | None = None, max_bytes: int = 10 * _GIB) -> None:
        """Makes the folder."""
        self._max_bytes = arguments.count("max_bytes", max_bytes)
        place = (
            os.environ.get("TOWERPACK_CACHE", "~/.cache/towerpack") if folder is None else os.fspath(folder)
        )
        self._folder = Path(place).expanduser().absolute()
        self._folder.mkdir(parents=True, exist_ok=True)
        self._added = self._max_bytes  # the first addition sweeps: others may have filled it

    def over(self, name: str, source: StoredBytes) -> StoredBytes:
        """Returns a source of the same bytes that reads each block of `source` once.

        Args:
            name: of the file, without credentials.
            source: of its bytes.
        """
        return _CachedBytes(self, f"{_digest(name, source.version)}", source)

    def whole(self, file: StoredFile) -> str:
        """Returns the path of a whole copy, which is made if there is none.

        Raises:
            StorageError: the file is larger than the budget, or cannot be read.
            OSError: the copy cannot be written.
        """
        path = self._folder / f"{_digest(file.name, file.version)}.whole" / Path(file.name).name
        if not _touch(path):
            if file.size > self._max_bytes:
                raise StorageError(
                    f"{file.name} has {file.size} bytes, and the cache in {self._folder} may have "
                    f"{self._max_bytes}; give a UrlCache with a larger max_bytes"
                )
            with create_file(path) as out:
                for offset in range(0, file.size, _BLOCK):
                    out.write(file.read(offset, min(_BLOCK, file.size - offset)))
            self._count(file.size)
        return str(path)

    def get(self, block: str) -> bytes | None:
        """Returns a block; None if it is not there, or damaged."""
        path = self._folder / block
        try:
            content = path.read_bytes()
        except OSError:
            return None
        if zlib.crc32(memoryview(content)[:-_CHECK]) != int.from_bytes(content[-_CHECK:], "little"):
            with suppress(FileNotFoundError):
                path.unlink()
            return None
        _touch(path)
        return content[:-_CHECK]

    def put(self, block: str, content: memoryview) -> None:
        """Keeps a block.

        Raises:
            OSError: it cannot be written.
        """
        with create_file(self._folder / block) as out:
            out.write(content)
            out.write(zlib.crc32(content).to_bytes(_CHECK, "little"))
        self._count(len(content) + _CHECK)

    def _count(self, size: int) -> None:
        self._added += size
        if self._added * _BETWEEN_SWEEPS >= self._max_bytes:
            self._sweep()
            self._added = 0

    def _sweep(self) -> None:
        with open(self._folder / ".lock", "wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            entries = sorted(_entries(self._folder))
            excess = sum(size for _, size, _ in entries) - self._max_bytes
            for _, size, path in entries:
                if excess <= 0:
                    break
                with suppress(FileNotFoundError):
                    os.unlink(path)
                excess -= size


@final
class _CachedBytes:
    """Bytes of which each block is read once."""

    def __init__(self, cache: UrlCache, key: str, source: StoredBytes) -> None:
        self.cache, self.size, self.version = cache, source.size, source.version
        self._key, self._source = key, source

    def read(self, offset: int, size: int) -> memoryview:
        first, last = offset // _BLOCK, (offset + size - 1) // _BLOCK
        blocks = [self._block(number) for number in range(first, last + 1)]
        begin = offset - first * _BLOCK
        joined = blocks[0] if len(blocks) == 1 else b"".join(blocks)
        return memoryview(joined)[begin : begin + size]

    def check(self) -> None:
        """Does nothing: each read is of the version that was opened."""

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


def _touch(path: Path) -> bool:
    """Marks what is used now, and returns whether it is there."""
    try:
        os.utime(path)
    except FileNotFoundError:
        return False
    return True


def _entries(folder: Path) -> list[tuple[int, int, str]]:
    """Lists time of the last use, size and path of all that may be removed.

    What another process is writing may not, since it could not be renamed then; what is not written to for
    long, was left by a process that was killed.
    """
    abandoned = time.time_ns() - _ABANDONED_NS
    found = []
    for directory, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(directory, name)
            with suppress(FileNotFoundError):
                stat = os.stat(path)
                if name != ".lock" and not (name.endswith(".tmp") and stat.st_mtime_ns > abandoned):
                    found.append((stat.st_mtime_ns, stat.st_size, path))
    return found
