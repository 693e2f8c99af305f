"""`OpenedRecords`: the records of a file opened separately by each process."""

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
    """Records of a file; each process opens it at the first read.

    Args:
        path: path of the file. `_name` is the same without credentials, for all output.
    """

    def __init__(self, path: URL) -> None:
        """Stores the path; opens nothing."""
        self._path = as_url("path", path)
        self._name = printable(self._path)
        self._opened: tuple[int, Any] | None = None

    @abstractmethod
    def _open(self) -> Any:
        """Returns the source of the records after checking that the file is unchanged."""

    @abstractmethod
    def _record(self, index: int) -> Any:
        """Returns a record."""

    def several(self, indices: Sequence[int]) -> Iterator[Any]:
        """Yields records."""
        return map(self._record, indices)

    def _file(self) -> Any:
        """Returns the result of `_open` in this process."""
        opened = self._opened
        if opened is None or opened[0] != os.getpid():
            opened = self._opened = os.getpid(), self._open()
        return opened[1]

    def __getstate__(self) -> dict[str, Any]:
        """Leaves out the open file; a copy opens it at the first read."""
        return {**vars(self), "_opened": None}


def open_same(path: str, version: str, cache: UrlCache | None = None) -> StoredFile:
    """Opens the file of a flow again.

    Args:
        path: path of the file.
        version: its `StoredFile.version` at the creation of the flow.
        cache: cache for a remote file.

    Raises:
        FormatError: the file was replaced or changed.
        OSError: the file no longer exists.
    """
    file = open_url(path, cache)
    if file.version != version:
        file.close()
        raise FormatError(
            f"{file.name}: the file was replaced or changed since the flow was created; create it again"
        )
    return file
