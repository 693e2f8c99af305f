"""`StoredFile`: the bytes of a file, wherever it lies."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol, final

from .._errors import FormatError, StorageError
from ._printable_url import lasting_url, printable

__all__ = ["StoredBytes", "StoredFile"]


class StoredBytes(Protocol):
    """What a `StoredFile` reads from.

    Attributes:
        size: in bytes.
        version: changes when the file does.
        descriptor: of a local file that is open; None for one elsewhere.
        lasting: whether that is sure, also in later runs; else `version` is not more than the size.
    """

    size: int
    version: str
    descriptor: int | None
    lasting: bool

    def read(self, offset: int, size: int) -> memoryview:
        """Returns `size` bytes, all of which are there."""

    def check(self) -> None:
        """Checks that the bytes which were read are those of one version."""

    def close(self) -> None:
        """Gives back what it holds."""


@final
class StoredFile:
    """The bytes of a file on a disk, on a web server or in an object store; read, never written.

    May be sent to another process, which opens it anew. It is pickled with the whole URL, and printed without
    the URL's user, password and query. Threads may share it.

    Attributes:
        name: the URL, without credentials.
        size: in bytes.
        version: a word that changes when the file does.
        lasting: whether that is sure, also in later runs; else `version` is not more than the size.
        lasting_url: the URL without user, password and signature, which names the file in later runs.

    Args:
        url: as `as_url` gives it.
        source: what it reads from.
        reopen: opens a URL, of a version, through a cache or None; at the top of a module.
    """

    def __init__(self, url: str, source: StoredBytes, reopen: Callable[..., StoredFile]) -> None:
        """Takes over `source`."""
        self._url, self._source, self._reopen = url, source, reopen
        self.name, self.size, self.version = printable(url), source.size, source.version
        self.lasting, self.lasting_url = source.lasting, lasting_url(url)
        self._map: memoryview | None = None

    def read(self, offset: int = 0, size: int | None = None) -> memoryview:
        """Returns a copy of bytes of the file.

        Args:
            offset: of the first.
            size: how many; all that follow if not given.

        Raises:
            FormatError: the file ends before.
            StorageError: the bytes cannot be had, or the file has changed since it was opened.
        """
        size = max(self.size - offset, 0) if size is None else size
        if offset < 0 or size < 0 or offset + size > self.size:
            raise FormatError(
                f"{self.name} has {self.size} bytes, and bytes {offset} to {offset + size} were asked for: "
                f"it is cut off, or an index of it belongs to another file"
            )
        return self._source.read(offset, size) if size else memoryview(b"")

    def map(self) -> memoryview:
        """Returns all bytes of the file. A local file is mapped: they are read when they are looked at.

        They stay valid when the file is closed. Call `check` before and after a look at them: the system ends
        the process if the file was cut.

        Raises:
            StorageError: the bytes cannot be had, or the file has changed since it was opened.
        """
        if self._map is None:
            descriptor = self._source.descriptor
            if descriptor is None or not self.size:
                return self.read()
            self.check()
            self._map = memoryview(mmap.mmap(descriptor, 0, prot=mmap.PROT_READ))[: self.size]
        return self._map

    def readinto(self, target: memoryview, offset: int) -> None:
        """Fills memory with bytes of the file.

        Args:
            target: bytes.
            offset: of the first.

        Raises:
            StorageError: the file has been cut.
        """
        while target:
            assert self._source.descriptor is not None
            size = os.preadv(self._source.descriptor, [target], offset)
            if not size:
                raise StorageError(f"{self.name} was cut while it was being read; make the flow again")
            target, offset = target[size:], offset + size

    def check(self) -> None:
        """Checks that a local file has not been written to since it was opened.

        Each `read` does it for itself. Files elsewhere are of one version in any case.

        Raises:
            StorageError: it has.
        """
        self._source.check()

    def close(self) -> None:
        """Gives back what it holds; memory that was read stays valid."""
        self._source.close()
        self._map = None

    def __enter__(self) -> StoredFile:
        """Returns itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes it."""
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        """Is opened anew, and must be the same file."""
        return self._reopen, (self._url, self.version, getattr(self._source, "cache", None))

    def __repr__(self) -> str:
        """Names it without credentials."""
        return f"StoredFile({self.name!r}, size={self.size})"
