"""`EvenShard`: one rank's share of a flow, of the same length on each rank."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, final

from .._errors import ArgumentError
from ..flow._epoch import Epoch
from ..flow.provenance import Origin
from ..operators._shard import ShardData, pick
from ..storage import snapshot

__all__ = ["EvenShard"]


@final
class EvenShard(ShardData):
    """Yields every `count`-th datapoint of the flow below, with the same number in each shard.

    Args:
        ds: the flow below.
        index: number of the shard.
        count: number of shards.
        repeats: whether the first datapoints of the pass fill the last round; otherwise that round is
            dropped.

    Raises:
        ArgumentError: the numbers do not describe a shard, or a live flow would have to repeat datapoints.
    """

    def __init__(self, ds: Any, index: int, count: int, *, repeats: bool) -> None:
        """Stores the arguments; reads nothing."""
        super().__init__(ds, index, count)
        self._repeats = repeats
        if repeats and self.live:
            raise ArgumentError(
                f'even="repeat" repeats the first datapoints of a pass, but {self.ds._name()} is '
                'live: its datapoints cannot be read again. Use even="drop"'
            )

    def __len__(self) -> int:
        """Returns the number of datapoints of each shard."""
        whole, rest = divmod(len(self.ds), self._count)
        return whole + (self._repeats and rest > 0)

    def _datapoints(self, epoch: Epoch, start: int) -> Iterator[Any]:
        if self.ds.addressable:
            return (self._datapoint(epoch, index) for index in range(start, len(self)))
        below = self._below(epoch)
        return self._and_repeated(below, start) if self._repeats else self._whole_rounds(below, start)

    def _datapoint(self, epoch: Epoch, index: int) -> Any:
        return pick(self.ds, self._below(epoch), self._place(index))

    def origins(self, epoch: Epoch, index: int) -> list[Origin]:
        """Returns the datapoint below that forms this rank's datapoint."""
        return [Origin(self.ds, self._place(index))]

    def _columns(self) -> None:
        return None  # the indices of the last round are not a range

    def _place(self, index: int) -> int:
        return (self._index + index * self._count) % len(self.ds)

    def _whole_rounds(self, below: Epoch, start: int) -> Iterator[Any]:
        """Yields a datapoint of a stream once the stream has yielded one for each other shard, too."""
        datapoints = self.ds._datapoints(below, start * self._count)
        while True:
            read, own = 0, None
            for read, datapoint in enumerate(islice(datapoints, self._count), 1):
                if read == self._index + 1:
                    own = snapshot(datapoint) if read < self._count else datapoint
            if read < self._count:
                return
            yield own

    def _and_repeated(self, below: Epoch, start: int) -> Iterator[Any]:
        """Yields the datapoints of a stream, and a repeated one if the last round lacks it."""
        begin = number = max((start - 1) * self._count + self._index + 1, 0)  # after the last of this shard
        for number, datapoint in enumerate(self.ds._datapoints(below, begin), begin + 1):
            if (number - 1) % self._count == self._index:
                yield datapoint
        rest = number % self._count
        if 0 < rest <= self._index:
            again = Epoch(int(below), below.seed, below.path, None, below.outer_epoch)
            place = (number - rest + self._index) % number
            yield from islice(self.ds._datapoints(again, 0), place, place + 1)
