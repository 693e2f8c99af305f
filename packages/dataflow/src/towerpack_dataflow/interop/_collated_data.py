"""`CollatedData`: batches that a function makes of a number of datapoints."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, final

from .._errors import ArgumentTypeError
from ..batch._batch_data import checked_batch_size
from ..batch._host_share import hosts_of
from ..flow._epoch import Epoch
from ..flow._trace import Origin
from ..flow._user_code import record_origin
from ..operators._proxy_flow import ProxyDataFlow
from ..storage import snapshot

__all__ = ["CollatedData"]


@final
class CollatedData(ProxyDataFlow):
    """Calls a function with the datapoints of each batch.

    Args:
        ds: the flow below.
        batch_size: datapoints in a batch.
        remainder: whether the last, smaller batch is made or dropped.
        collate: called with a list of datapoints; returns the batch.

    Raises:
        ArgumentError: `batch_size` is not an integer above 0, or is larger than `ds` without `remainder`.
        ArgumentTypeError: `collate` cannot be called.
    """

    def __init__(
        self, ds: Any, batch_size: int, remainder: bool, collate: Callable[[list[Any]], Any]
    ) -> None:
        """Checks the size against the length of `ds`, if it is known."""
        super().__init__(ds)
        self._batch_size = checked_batch_size(self.ds, batch_size, remainder)
        self._remainder = remainder
        if not callable(collate):
            raise ArgumentTypeError(
                f"collate is a function of a list of datapoints, or None; received {collate!r}"
            )
        self._collate = collate

    def __len__(self) -> int:
        """Returns the number of batches in a pass."""
        whole, rest = divmod(len(self.ds), self._batch_size)
        return whole + (self._remainder and rest > 0)

    def identity(self) -> dict[str, bool | int | str]:
        """Returns the size of a batch over all hosts, and whether smaller ones are yielded."""
        return {"batch_size": self._batch_size * hosts_of(self.ds), "remainder": self._remainder}

    def _datapoints(self, epoch: Epoch, start: int) -> Iterator[Any]:
        size = self._batch_size
        datapoints = self.ds._datapoints(self._below(epoch), start * size)
        try:
            while members := [snapshot(datapoint) for datapoint in islice(datapoints, size)]:
                if len(members) < size and not self._remainder:
                    return
                batch = self._collate(members)
                del members
                yield batch
                del batch
        except Exception as error:
            record_origin(error, self)
            raise

    def _datapoint(self, epoch: Epoch, index: int) -> Any:
        return next(self._datapoints(epoch, index), None)

    def origins(self, epoch: Epoch, index: int) -> list[Origin]:
        """Returns the datapoints of a batch."""
        first, below = index * self._batch_size, self._below(epoch)
        return [
            Origin(self.ds, number, below)
            for number in range(first, min(first + self._batch_size, len(self.ds)))
        ]
