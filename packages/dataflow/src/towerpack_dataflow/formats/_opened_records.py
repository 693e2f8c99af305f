"""`OpenedRecords`: the records of a file that each process opens for itself."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from .._errors import FormatError
from ..storage import URL, open_url

__all__ = ["OpenedRecords", "check_same_file"]


class OpenedRecords(Sequence[Any]):
    """A sequence of records that opens its file when a process first reads one.

    Args:
        path: of the file.
    """

    def __init__(self, path: URL) -> None:
        """Opens nothing."""
        self._path = os.fspath(path)
        self._opened: tuple[int, Any] | None = None

    @abstractmethod
    def _open(self) -> Any:
        """Returns what records are read from, and checks that it is still the same file."""

    def _file(self) -> Any:
        """Returns what `_open` gave in this process."""
        opened = self._opened
        if opened is None or opened[0] != os.getpid():
            opened = self._opened = os.getpid(), self._open()
        return opened[1]

    def __getstate__(self) -> dict[str, Any]:
        """A copy opens the file when it first reads."""
        return {**vars(self), "_opened": None}


def check_same_file(path: str, version: str) -> None:
    """Checks that a file is the one that a flow was made of.

    Args:
        path: of the file.
        version: as `StoredFile` had it then.

    Raises:
        FormatError: it was replaced or changed.
        OSError: it is not there any more.
    """
    with open_url(path) as file:
        if file.version != version:
            raise FormatError(
                f"{path}: the file was replaced or changed since the flow was made; make it again"
            )
