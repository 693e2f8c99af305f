"""Files: the one seam through which formats read and write bytes."""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, final

__all__ = ["StoredFile", "create_file", "local_path", "open_url"]


@final
class StoredFile:
    """A file that is read by stretches of bytes; a copy in another process opens it anew.

    Args:
        path: of a local file, which is mapped, so that nothing of it is copied.
    """

    def __init__(self, path: str) -> None:
        """Opens the file."""
        self.name = path
        with open(path, "rb") as file:
            self.size = os.fstat(file.fileno()).st_size
            self._map = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) if self.size else None
        self._view = memoryview(self._map or b"")

    def read(self, offset: int, size: int) -> memoryview:
        """Returns `size` bytes from `offset` on, or what there is of them."""
        return self._view[offset : offset + size]

    def close(self) -> None:
        """Lets the file go; what was read of it stays."""
        self._view = memoryview(b"")
        self._map = None

    def __enter__(self) -> StoredFile:
        """Returns the file."""
        return self

    def __exit__(self, *_: object) -> None:
        """Closes the file."""
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy opens the file anew."""
        return open_url, (self.name,)


def open_url(url: str | os.PathLike[str]) -> StoredFile:
    """Opens a file for reading."""
    return StoredFile(os.fspath(url))


def local_path(url: str | os.PathLike[str]) -> str:
    """Returns the path of a file for libraries that open paths."""
    return os.fspath(url)


@contextmanager
def create_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Writes a file that is there as a whole, or not at all."""
    target = os.path.abspath(path)
    handle, beside = tempfile.mkstemp(prefix=".towerpack-", dir=os.path.dirname(target))
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, target)
    except BaseException:
        os.unlink(beside)
        raise
