"""`RandomMixData`: mixes several flows in random order, computed in little memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, final

import numpy as np

from ..._errors import ArgumentError
from ...flow._epoch import Epoch
from ...flow._node import Effect
from ...flow._resume_marks import replayed
from ...flow._trace import Origin
from ._combined_flow import CombinedFlow

__all__ = ["MixOrder", "RandomMixData"]

_BLOCK = 1024


@final
class MixOrder:
    """A random interleaving of sequences, in which any range can be computed independently.

    All interleavings are equally likely, and each sequence keeps its order. The places are halved repeatedly:
    the number of members of each sequence in the left half is drawn from the multivariate hypergeometric
    distribution, down to blocks, in which the members are shuffled. Each draw belongs to a node of that tree,
    so reaching a block costs a logarithmic number of draws, and nothing is stored for the other blocks.

    Args:
        sizes: the lengths of the sequences.
        epoch: source of the random numbers.

    Example:
        >>> order = MixOrder([2, 1], Epoch(0, seed=1))
        >>> places, ranks = order.block(0)
        >>> sorted(places.tolist()), ranks
        ([0, 0, 1], [0, 0])
    """

    def __init__(self, sizes: list[int], epoch: Epoch) -> None:
        """Stores the arguments; draws nothing."""
        self._sizes = np.array(sizes, np.int64)
        self._epoch = epoch
        self.blocks = -(-int(self._sizes.sum()) // _BLOCK)

    def block_of(self, index: int) -> tuple[int, int]:
        """Returns the block of a place, and the offset of the place in it."""
        return divmod(index, _BLOCK)

    def block(self, number: int) -> tuple[np.ndarray, list[int]]:
        """Returns the sequence of each place of a block, and each sequence's count before it."""
        inside, before = self._sizes, np.zeros_like(self._sizes)
        low, high, node = 0, self.blocks, 1
        while high - low > 1:
            middle = (low + high) // 2
            left = self._epoch.rng(node).multivariate_hypergeometric(
                inside, (middle - low) * _BLOCK, method="marginals"
            )
            if number < middle:
                inside, high, node = left, middle, 2 * node
            else:
                inside, before, low, node = inside - left, before + left, middle, 2 * node + 1
        places = np.repeat(np.arange(len(inside)), inside)
        self._epoch.rng(node).shuffle(places)
        ranks: list[int] = before.tolist()
        return places, ranks


_MOST = 10**9  # NumPy's limit for hypergeometric draws


@final
class RandomMixData(CombinedFlow):
    """Mixes all datapoints of several flows; each flow keeps its own order.

    All interleavings of the flows are equally likely, so all flows end at about the same time. A pass ends
    when all have ended. The flow is addressable if all flows are: the source of datapoint *i* is computed in
    little time and memory, for any lengths.

    Args:
        df_lists: the flows; their lengths must be known.

    Raises:
        ArgumentTypeError: `df_lists` is not a list or tuple.
        ArgumentError: `df_lists` is empty, or the flows have more than 10**9 datapoints together.
        UnknownLengthError: the length of a flow is unknown; it is a `TypeError`.

    Example:
        >>> flow = RandomMixData([["a"] * 2, ["b"] * 3])
        >>> sorted(flow)
        ['a', 'a', 'b', 'b', 'b']
    """

    effect = Effect(passes_on=True, steady=True)

    def __init__(self, df_lists: Sequence[Any]) -> None:
        """Reads the lengths of the flows."""
        super().__init__(df_lists)
        self._sizes = [len(flow) for flow in self.df_lists]
        self._last_block: tuple[Any, tuple[np.ndarray, list[int]]] | None = None
        if sum(self._sizes) > _MOST:
            raise ArgumentError(
                f"RandomMixData mixes up to {_MOST} datapoints; received flows with {sum(self._sizes)}: mix "
                "shards of them, or use RandomChooseData"
            )

    def __len__(self) -> int:
        """Returns the sum of the lengths."""
        return sum(len(flow) for flow in self.df_lists)

    def _datapoints(self, epoch: Epoch, start: int) -> Iterator[Any]:
        if self.addressable:
            return self._mixed(epoch, start)
        return replayed(self._name(), epoch, self._mixed(epoch, 0), start)

    def _datapoint(self, epoch: Epoch, index: int) -> Any:
        place, rank = self._place(epoch, index)
        return self.df_lists[place]._datapoint(self._below(epoch, place), rank)

    def origins(self, epoch: Epoch, index: int) -> list[Origin]:
        """Returns the datapoint of the flow at this index."""
        place, rank = self._place(epoch, index)
        return [Origin(self.df_lists[place], rank, self._below(epoch, place))]

    def _place(self, epoch: Epoch, index: int) -> tuple[int, int]:
        """Returns the place of a datapoint's flow and its index there."""
        order = MixOrder(self._sizes, epoch)
        number, offset = order.block_of(index)
        places, ranks = self._block(order, epoch, number)
        place = int(places[offset])
        return place, ranks[place] + int(np.count_nonzero(places[:offset] == place))

    def _mixed(self, epoch: Epoch, start: int) -> Iterator[Any]:
        order = MixOrder(self._sizes, epoch)
        number, offset = order.block_of(start)
        if number >= order.blocks:
            return
        places, ranks = order.block(number)
        given = np.bincount(places[:offset], minlength=len(ranks))
        passes = self._passes(epoch, [rank + int(more) for rank, more in zip(ranks, given)])
        while True:
            for place in places[offset:].tolist():
                # A flow that drops datapoints without a declaration ends early, and the others continue.
                yield from islice(passes[place], 1)
            number, offset = number + 1, 0
            if number >= order.blocks:
                return
            places, _ = order.block(number)

    def _block(self, order: MixOrder, epoch: Epoch, number: int) -> tuple[np.ndarray, list[int]]:
        """Returns a block, cached for the next datapoint."""
        key = (epoch.identity, number)
        last = self._last_block
        if last is None or last[0] != key:
            last = self._last_block = (key, order.block(number))
        return last[1]

    def __getstate__(self) -> dict[str, Any]:
        """Leaves out the cached block; a copy computes it again."""
        return {**super().__getstate__(), "_last_block": None}
