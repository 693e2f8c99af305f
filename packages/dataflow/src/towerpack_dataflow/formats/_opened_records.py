"""`OpenedRecords`: the records of a file that each process opens for itself."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

from .._errors import FormatError
from ..storage import URL, StoredFile, UrlCache, as_url, open_url, printable
from ._record_flow import Records

__all__ = ["OpenedRecords", "open_same"]


class OpenedRecords(Records):
    """Records of a file that is opened when a process first reads one.

    Args:
        path: of the file. `_name` is it without credentials, for all that is printed.
    """

    def __init__(self, path: URL) -> None:
        """Opens nothing."""
        self._path = as_url("path", path)
        self._name = printable(self._path)
        self._opened: tuple[int, Any] | None = None

    @abstractmethod
    def _open(self) -> Any:
        """Returns what records are read from, and checks that it is still the same file."""

    @abstractmethod
    def _record(self, index: int) -> Any:
        """Returns a record."""

    def several(self, indices: Sequence[int]) -> Iterator[Any]:
        """Yields records."""
        return map(self._record, indices)

    def _file(self) -> Any:
        """Returns what `_open` gave in this process."""
        opened = self._opened
        if opened is None or opened[0] != os.getpid():
            opened = self._opened = os.getpid(), self._open()
        return opened[1]

    def __getstate__(self) -> dict[str, Any]:
        """A copy opens the file when it first reads."""
        return {**vars(self), "_opened": None}


def open_same(path: str, version: str, cache: UrlCache | None = None) -> StoredFile:
    """Opens the file that a flow was made of.

    Args:
        path: of the file.
        version: as `StoredFile` had it then.
        cache: for a file elsewhere.

    Raises:
        FormatError: it was replaced or changed.
        OSError: it is not there any more.
    """
    file = open_url(path, cache)
    if file.version != version:
        file.close()
        raise FormatError(
            f"{file.name}: the file was replaced or changed since the flow was made; make it again"
        )
    return file
