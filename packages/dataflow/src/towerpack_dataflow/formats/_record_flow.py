"""`Records` of a file, and `RecordFlow`, which yields them as datapoints; each process opens the file."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

from .._errors import FormatError
from ..flow._epoch import Epoch
from ..flow._node import Effect
from ..flow._user_code import origin_of_errors
from ..sources._from_iterable import DataFromList
from ..storage import URL, StoredFile, UrlCache, as_url, open_url, printable

__all__ = ["OpenedRecords", "RecordFlow", "Records", "open_same"]

_WINDOW = 256


class Records(Sequence[Any]):
    """Reads the records of a file by index; abstract."""

    @abstractmethod
    def several(self, indices: Sequence[int]) -> Iterator[Any]:
        """Yields records; cheaper than reading them one by one."""

    def rest(self, start: int) -> Iterator[Any]:
        """Yields the records from number `start` on; overridden by formats with a cheaper sequential read."""
        for low in range(start, len(self), _WINDOW):
            yield from self.several(range(low, min(low + _WINDOW, len(self))))

    def __getitem__(self, index: Any) -> Any:
        """Returns a record."""
        return next(self.several((index,)))


class RecordFlow(DataFromList):
    """Yields the records of a file; addressable.

    A position is the number of a record, so a pass resumes at any record at once, and workers divide the
    records of a pass. Each process opens the file at its first read; a copy of the flow holds the file's name
    and the data to find a record.

    Args:
        records: creates a new datapoint each time a record is read.
        shuffle: whether each epoch has a different order.
    """

    effect = Effect(steady=True)  # a record is created at each read

    _lst: Records

    def __init__(self, records: Records, shuffle: bool) -> None:
        """Stores `records`; reads none."""
        super().__init__(records, shuffle)
        self._path = self._records = records  # the arguments of subclasses, for `repr`

    def _one_by_one(self, epoch: Epoch, start: int) -> Iterator[Any]:
        with origin_of_errors(self):
            if not self._shuffle:
                yield from self._lst.rest(start)
                return
            for low, high in self._bounds(start):
                yield from self._lst.several(self._indices(epoch, low, high))


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
