"""`EvenShard`: one rank's share of a flow, of the same length on each rank."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, final

from .._errors import ArgumentError
from ..flow._epoch import Epoch
from ..flow._node import Effect
from ..flow._trace import Origin
from ..flow._tree_fingerprint import known_length
from ..operators._shard import ShardData, pick
from ..storage import snapshot

__all__ = ["EvenShard"]


@final
class EvenShard(ShardData):
    """Yields every `count`-th datapoint of the flow below, with the same number in each shard.

    The rest of a pass that other ranks have begun is divided from its first datapoint on: the shards yield it
    in turn, each datapoint once. Its indices end like those of a whole pass, and begin at `rest_begin`.

    Args:
        ds: the flow below.
        index: number of the shard.
        count: number of shards.
        even: treatment of a last round that does not suffice for all shards: "drop" it, "repeat" the first
            datapoints of the pass to fill it, or raise an "error".
        begun: number of the pass that continues, and of its datapoints that were yielded before, by all
            shards together.

    Raises:
        ArgumentError: the numbers do not describe a shard, a live flow would have to repeat datapoints, or
            with "error", the last round does not suffice for all shards.
    """

    effect = Effect(keeps_place=True, passes_on=True, steady=True)

    def __init__(
        self, ds: Any, index: int, count: int, *, even: str = "drop", begun: tuple[int, int] = (0, 0)
    ) -> None:
        """Stores the arguments; reads nothing but the length."""
        super().__init__(ds, index, count)
        self._even = even
        self._begun = begun
        if even == "repeat" and self.live:
            raise ArgumentError(
                f'even="repeat" repeats the first datapoints of a pass, but {self.ds._name()} is '
                'live: its datapoints cannot be read again. Use even="drop"'
            )
        length = known_length(self.ds)
        if even == "error" and length is not None:
            for left in (length, length - begun[1]):
                self._check_rounds(left)

    def __len__(self) -> int:
        """Returns the number of datapoints of each shard in a whole pass."""
        return self._rounds(len(self.ds))

    @property
    def rest_begin(self) -> int:
        """The index at which the pass that continues begins."""
        length = known_length(self.ds)
        if length is None:
            return 0
        return self._rounds(length) - self._rounds(max(length - self._begun[1], 0))

    def yielded(self, epoch: int, index: int) -> int:
        """Returns how many datapoints of a pass all shards have yielded when each is at `index`."""
        number, before = self._begun
        if epoch != number or not before:
            return index * self._count
        return before + (index - self.rest_begin) * self._count

    def _datapoints(self, epoch: Epoch, start: int) -> Iterator[Any]:
        base = self.yielded(epoch, start)
        below = self._below(epoch)
        if self._count == 1:
            return self.ds._datapoints(below, base)
        if self.ds.addressable:
            return (self._datapoint(epoch, index) for index in range(start, len(self)))
        return self._and_repeated(below, base) if self._even == "repeat" else self._whole_rounds(below, base)

    def _datapoint(self, epoch: Epoch, index: int) -> Any:
        return pick(self.ds, self._below(epoch), self._place(epoch, index))

    def origins(self, epoch: Epoch, index: int) -> list[Origin]:
        """Returns the datapoint below that forms this rank's datapoint."""
        return [Origin(self.ds, self._place(epoch, index))]

    def _columns(self) -> None:
        return None  # the indices of the last round are not a range

    def _place(self, epoch: int, index: int) -> int:
        return (self._index + self.yielded(epoch, index)) % len(self.ds)

    def _rounds(self, length: int) -> int:
        whole, rest = divmod(length, self._count)
        return whole + (self._even == "repeat" and rest > 0)

    def _check_rounds(self, left: int) -> None:
        if left % self._count:
            raise ArgumentError(
                f"{self._count} ranks share {left} datapoints, and each rank needs the same number: training "
                'would hang at the last one. Set even="drop" to leave out the last '
                f'{left % self._count}, or even="repeat" to fill the last round with the first ones'
            )

    def _whole_rounds(self, below: Epoch, base: int) -> Iterator[Any]:
        """Yields a datapoint of a stream once the stream has yielded one for each other shard, too."""
        datapoints = self.ds._datapoints(below, base)
        while True:
            read, own = 0, None
            for read, datapoint in enumerate(islice(datapoints, self._count), 1):
                if read == self._index + 1:
                    own = snapshot(datapoint) if read < self._count else datapoint
            if read < self._count:
                if self._even == "error":
                    self._check_rounds(read)
                return
            yield own

    def _and_repeated(self, below: Epoch, base: int) -> Iterator[Any]:
        """Yields the datapoints of a stream, and a repeated one if the last round lacks it."""
        first = self.yielded(below, self.rest_begin) if int(below) == self._begun[0] else 0
        # After the last datapoint of this shard: its number tells whether that was a repeated one.
        begin = number = base if base == first else base - self._count + self._index + 1
        for number, datapoint in enumerate(self.ds._datapoints(below, begin), begin + 1):
            if (number - 1 - first) % self._count == self._index:
                yield datapoint
        rest = (number - first) % self._count
        if 0 < rest <= self._index:
            again = Epoch(int(below), below.seed, below.path, None, below.outer_epoch)
            place = (number - rest + self._index) % number
            yield from islice(self.ds._datapoints(again, 0), place, place + 1)
