"""`LocallyShuffleData`: a shuffle with a bounded buffer, and its order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice, repeat
from typing import Any, NamedTuple, final

import numpy as np

from .. import _argument_checks as arguments
from ..flow._epoch import Epoch
from ..flow._node import Effect
from ..flow._trace import Origin
from ..flow._user_code import copy_containers, drain
from ..flow._written_flow import is_steady
from ..storage import snapshot
from ._proxy_flow import ProxyDataFlow

__all__ = ["IndexRange", "LocalOrder", "LocallyShuffleData"]


@final
class LocallyShuffleData(ProxyDataFlow):
    """Shuffles a flow by less than `buffer_size` places, with at most that many datapoints in memory.

    For data read in order from a disk or a network, where `DataFromList(..., shuffle=True)` would read in
    random order. Datapoints never move into another pass, each comes exactly `num_reuse` times in its pass,
    and the order is a function of seed, epoch and index. So a state does not contain the buffer: resuming
    reads up to `buffer_size` datapoints again. The flow is addressable if the flow below is.

    Args:
        ds: the flow below.
        buffer_size: number of datapoints to keep, repetitions included. From 3 on, the order is random; a
            buffer of 2 exchanges neighbours, a buffer of 1 changes nothing.
        num_reuse: number of repetitions of each datapoint; they lie less than `buffer_size` apart.

    Raises:
        ArgumentError: a number is not an integer above 0.

    Example:
        >>> flow = LocallyShuffleData(range(100), 10)
        >>> numbers = list(flow)
        >>> sorted(numbers) == list(range(100)), max(abs(n - place) for place, n in enumerate(numbers)) < 10
        (True, True)
    """

    effect = Effect(steady=True)

    def __init__(self, ds: Any, buffer_size: int, num_reuse: int = 1) -> None:
        """Stores the arguments; reads nothing."""
        super().__init__(ds)
        self._buffer_size = arguments.count("buffer_size", buffer_size)
        self._num_reuse = arguments.count("num_reuse", num_reuse)
        self._last_order: tuple[Any, LocalOrder] | None = None

    def __len__(self) -> int:
        """Returns the number of datapoints, with repetitions."""
        return len(self.ds) * self._num_reuse

    def _datapoints(self, epoch: Epoch, start: int) -> Iterator[Any]:
        order = LocalOrder(self._buffer_size, epoch)
        number = order.out(start)
        skipped = start - order.given(number).first
        datapoints = chain.from_iterable(self._index_ranges(epoch, order, number))
        return islice(datapoints, skipped, None) if skipped else datapoints

    def _datapoint(self, epoch: Epoch, index: int) -> Any:
        return self.ds._datapoint(self._below(epoch), self._number_below(epoch, index))

    def origins(self, epoch: Epoch, index: int) -> list[Origin]:
        """Returns the datapoint at this index of the order."""
        return [Origin(self.ds, self._number_below(epoch, index), self._below(epoch))]

    def _number_below(self, epoch: Epoch, index: int) -> int:
        return self._order(epoch).at(index, len(self)) // self._num_reuse

    def _index_ranges(self, epoch: Epoch, order: LocalOrder, number: int) -> Iterator[Iterable[Any]]:
        """Yields the datapoints of range `number` and of the following ranges, in the order of the pass."""
        begin, end = order.given(number)
        block = begin // order.block
        first = order.read(block).first
        read = self._read(epoch, first)
        kept = self._block(order, block, read)[begin - first :]
        wanted = end - begin
        while True:
            if wanted > len(kept):
                block += 1
                kept += self._block(order, block, read)
            if wanted and not kept:
                return
            given = kept[:wanted]
            del kept[:wanted]
            given = [given[place] for place in order.shuffled(True, number, len(given)).tolist()]
            yield copy_containers(given) if self._num_reuse > 1 else drain(given)
            wanted = order.block
            number += 1

    def _block(self, order: LocalOrder, number: int, read: Iterator[Any]) -> list[Any]:
        """Reads the next block, and returns it in the order of the first shuffle."""
        members = list(islice(read, order.block))
        return [members[place] for place in order.shuffled(False, number, len(members)).tolist()]

    def _read(self, epoch: Epoch, first: int) -> Iterator[Any]:
        """Yields snapshots of the datapoints below, with their repetitions, from number `first` on."""
        start, given = divmod(first, self._num_reuse)
        datapoints = self.ds._datapoints(self._below(epoch), start)
        if not is_steady(self.ds):
            datapoints = map(snapshot, datapoints)
        if self._num_reuse == 1:
            return datapoints
        return islice(chain.from_iterable(map(repeat, datapoints, repeat(self._num_reuse))), given, None)

    def _order(self, epoch: Epoch) -> LocalOrder:
        """Returns the order of an epoch, cached for the next datapoint."""
        last = self._last_order
        if last is None or last[0] != epoch.identity:
            last = self._last_order = (epoch.identity, LocalOrder(self._buffer_size, epoch))
        return last[1]

    def __getstate__(self) -> dict[str, Any]:
        """Drops the cached order; a copy computes it again."""
        return {**super().__getstate__(), "_last_order": None}

    def _name(self) -> str:
        return f"LocallyShuffleData({self._buffer_size})"


_KEPT = 4  # groups of permutations; a datapoint needs two, and the next one usually the same two
_DRAWN = 2048  # numbers at a time: starting a draw costs as much as many numbers


class IndexRange(NamedTuple):
    """Numbers from `first` up to `stop`, shuffled among themselves."""

    first: int
    stop: int


@final
class LocalOrder:
    """A random order in which every number moves by less than `reach` places.

    It is made of two shuffles. The first one permutes blocks of numbers. The second one permutes blocks of
    the same length, offset by half a block, so that the members of two blocks meet. Each block depends on its
    place alone: any range is computed independently, from a sequence of any length.

    Args:
        reach: number of datapoints needed at once.
        epoch: source of the random numbers.

    Attributes:
        block: the length of blocks; the rest of a block and the whole next block are shorter than `reach`.

    Example:
        >>> order = LocalOrder(6, Epoch(0, seed=1))
        >>> numbers = [order.at(place, 20) for place in range(20)]
        >>> sorted(numbers) == list(range(20)), max(abs(n - place) for place, n in enumerate(numbers)) < 6
        (True, True)
    """

    def __init__(self, reach: int, epoch: Epoch) -> None:
        """Stores the arguments; draws nothing."""
        self.block = max(2 * reach // 3, min(reach, 2))
        self._half = self.block // 2 if reach > 2 else 0
        self._epoch = epoch
        self._together = max(_DRAWN // self.block, 1)
        self._rows: np.ndarray | None = None
        self._groups: dict[tuple[bool, int], np.ndarray] = {}

    def out(self, place: int) -> int:
        """Returns the number of the range of the second shuffle that contains a place."""
        return (place - self._half) // self.block + 1

    def given(self, number: int, length: int | None = None) -> IndexRange:
        """Returns the places of range `number` of the second shuffle in a sequence of `length`."""
        first = max(self._half + (number - 1) * self.block, 0)
        return self._cut(first, self._half + number * self.block, length)

    def read(self, number: int, length: int | None = None) -> IndexRange:
        """Returns the numbers of range `number` of the first shuffle in a sequence of `length`."""
        return self._cut(number * self.block, (number + 1) * self.block, length)

    def shuffled(self, second: bool, number: int, size: int) -> np.ndarray:
        """Returns the permutation of a range of `size` numbers, for the first or the second shuffle."""
        if size < self.block:  # at an end of the sequence
            return self._epoch.rng(4 * number + 2 + second).permutation(size)
        group, row = divmod(number, self._together)
        found = self._groups.get((second, group))
        if found is None:
            if self._rows is None:
                self._rows = np.tile(np.arange(size), (self._together, 1))
            found = self._epoch.rng(4 * group + second).permuted(self._rows, axis=1)
            kept = list(self._groups.items())[1 - _KEPT :]
            self._groups = dict([*kept, ((second, group), found)])
        permutation: np.ndarray = found[row]
        return permutation

    def at(self, place: int, length: int) -> int:
        """Returns the number at a place, in a sequence of `length`."""
        number = self.out(place)
        first, stop = self.given(number, length)
        between = first + int(self.shuffled(True, number, stop - first)[place - first])
        number = between // self.block
        first, stop = self.read(number, length)
        return first + int(self.shuffled(False, number, stop - first)[between - first])

    @staticmethod
    def _cut(first: int, stop: int, length: int | None) -> IndexRange:
        return (
            IndexRange(first, stop) if length is None else IndexRange(min(first, length), min(stop, length))
        )
