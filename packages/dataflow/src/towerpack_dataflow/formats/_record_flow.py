"""`Records` of a file, and `RecordFlow`, which yields them as datapoints."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

from ..flow._effect import Effect
from ..flow._epoch import Epoch
from ..flow._error_location import blame
from ..sources._from_list import DataFromList

__all__ = ["RecordFlow", "Records"]

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
        self._path = records

    def _one_by_one(self, epoch: Epoch, start: int) -> Iterator[Any]:
        try:
            if not self._shuffle:
                yield from self._lst.rest(start)
                return
            for low, high in self._bounds(start):
                yield from self._lst.several(self._indices(epoch, low, high))
        except Exception as error:
            blame(error, self)
            raise
