"""`LocallyShuffleData`: a shuffle with a bounded buffer."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice, repeat
from typing import Any, final

from .. import _argument_checks as arguments
from ..flow._effect import Effect
from ..flow._epoch import Epoch
from ..flow._user_code import copy_containers
from ..flow._written_flow import is_steady
from ..flow.provenance import Origin
from ..storage import snapshot
from ._local_order import LocalOrder
from ._proxy_flow import ProxyDataFlow

__all__ = ["LocallyShuffleData"]


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

    def _index_ranges(self, epoch: Epoch, order: LocalOrder, number: int) -> Iterator[list[Any]]:
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
            yield copy_containers(given) if self._num_reuse > 1 else given
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
