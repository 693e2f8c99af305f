"""A stored file as a Python file object, for libraries that need one."""

from __future__ import annotations

import io
from typing import Any, final

from ._stored_file import StoredFile

__all__ = ["StoredStream"]


@final
class StoredStream(io.RawIOBase):
    """Reads a `StoredFile` sequentially, with a position.

    Args:
        file: stays open when the stream is closed.
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
