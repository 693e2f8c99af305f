"""`StoredFile`: the bytes of a local or remote file."""

from __future__ import annotations

import io
import mmap
from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol, final

from .._errors import FormatError, StorageError
from ._atomic_file import read_into
from ._printable_url import lasting_url, printable

__all__ = ["StoredBytes", "StoredFile", "StoredStream"]


class StoredBytes(Protocol):
    """The source of bytes for a `StoredFile`.

    Attributes:
        size: size in bytes.
        version: a value that changes with the file.
        descriptor: file descriptor of an open local file; None for a remote one.
        lasting: whether `version` reliably identifies the content, also in later runs; else it may be only
            the size.
    """

    size: int
    version: str
    descriptor: int | None
    lasting: bool

    def read(self, offset: int, size: int) -> memoryview:
        """Returns exactly `size` bytes."""

    def check(self) -> None:
        """Checks that all bytes read belong to one version."""

    def close(self) -> None:
        """Releases all resources."""


@final
class StoredFile:
    """The bytes of a file on a disk, on a web server or in an object store; read, never written.

    May be sent to another process, which opens it again. The pickle holds the whole URL; the printed form
    leaves out the URL's user, password and query. Threads may share it.

    Attributes:
        name: the URL, without credentials.
        size: size in bytes.
        version: a string that changes with the file.
        lasting: whether `version` reliably identifies the content, also in later runs; else it may be only
            the size.
        lasting_url: the URL without user, password and signature, as the file's name in later runs.

    Args:
        url: a result of `as_url`.
        source: the source of the bytes.
        reopen: a module-level function that opens a URL at a version, through a cache or None.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from towerpack_dataflow.storage import open_url
        >>> path = Path(tempfile.mkdtemp()) / "words.txt"
        >>> _ = path.write_text("one two")
        >>> with open_url(path) as file:
        ...     print(file.size, bytes(file.read(4, 3)))
        7 b'two'
    """

    def __init__(self, url: str, source: StoredBytes, reopen: Callable[..., StoredFile]) -> None:
        """Takes ownership of `source`."""
        self._url, self._source, self._reopen = url, source, reopen
        self.name, self.size, self.version = printable(url), source.size, source.version
        self.lasting, self.lasting_url = source.lasting, lasting_url(url)
        self._map: memoryview | None = None

    def read(self, offset: int = 0, size: int | None = None) -> memoryview:
        """Returns a copy of a range of bytes.

        Args:
            offset: position of the first byte.
            size: number of bytes; all following bytes by default.

        Raises:
            FormatError: the file ends earlier.
            StorageError: the bytes cannot be read, or the file has changed since it was opened.
        """
        size = max(self.size - offset, 0) if size is None else size
        if offset < 0 or size < 0 or offset + size > self.size:
            raise FormatError(
                f"{self.name} has {self.size} bytes, but bytes {offset} to {offset + size} were requested: "
                f"it is truncated, or its index belongs to another file"
            )
        return self._source.read(offset, size) if size else memoryview(b"")

    def map(self) -> memoryview:
        """Returns all bytes of the file. A local file is mapped: bytes are read on access.

        They stay valid after the file is closed. Call `check` before and after each access: the system ends
        the process if the file was truncated.

        Raises:
            StorageError: the bytes cannot be read, or the file has changed since it was opened.
        """
        if self._map is None:
            descriptor = self._source.descriptor
            if descriptor is None or not self.size:
                return self.read()
            self.check()
            self._map = memoryview(mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ))[: self.size]
        return self._map

    def readinto(self, target: memoryview, offset: int) -> None:
        """Copies bytes of the file into memory.

        Args:
            target: memory to fill.
            offset: position of the first byte.

        Raises:
            StorageError: the file has been truncated.
        """
        while target:
            assert self._source.descriptor is not None
            size = read_into(self._source.descriptor, target, offset)
            if not size:
                raise StorageError(
                    f"{self.name} was truncated while it was being read; create the flow again"
                )
            target, offset = target[size:], offset + size

    def check(self) -> None:
        """Checks that a local file has not been written to since it was opened.

        Each `read` includes this check. Remote files always have one version.

        Raises:
            StorageError: the file was written to.
        """
        self._source.check()

    def close(self) -> None:
        """Releases all resources; memory already read stays valid."""
        self._source.close()
        self._map = None

    def __enter__(self) -> StoredFile:
        """Returns itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes the file."""
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        """Opens the file again when unpickled; it must be unchanged."""
        return self._reopen, (self._url, self.version, getattr(self._source, "cache", None))

    def __repr__(self) -> str:
        """Shows the name without credentials."""
        return f"StoredFile({self.name!r}, size={self.size})"


@final
class StoredStream(io.RawIOBase):
    """Reads a `StoredFile` sequentially, with a position.

    Args:
        file: stays open when the stream is closed.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from towerpack_dataflow.storage import open_url
        >>> path = Path(tempfile.mkdtemp()) / "words.txt"
        >>> _ = path.write_text("one two")
        >>> with open_url(path) as file:
        ...     print(StoredStream(file).read(3))
        b'one'
    """

    def __init__(self, file: StoredFile) -> None:
        """Starts at the first byte."""
        self._file, self._at = file, 0

    def readable(self) -> bool:
        """Returns True."""
        return True

    def seekable(self) -> bool:
        """Returns True."""
        return True

    def tell(self) -> int:
        """Returns the position."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Moves to a position and returns it.

        Raises:
            OSError: the position lies before the first byte.
        """
        begin = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._file.size}[whence]
        if begin + offset < 0:
            raise OSError(f"{self._file.name}: byte {begin + offset} lies before the beginning")
        self._at = begin + offset
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Fills a buffer with the available bytes and returns their number."""
        target = memoryview(buffer).cast("B")
        size = max(0, min(len(target), self._file.size - self._at))
        if size:
            target[:size] = self._file.read(self._at, size)
        self._at += size
        return size
