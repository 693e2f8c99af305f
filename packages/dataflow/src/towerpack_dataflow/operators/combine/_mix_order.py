"""Which of several sequences each place of a random interleaving belongs to, in little memory."""

from __future__ import annotations

from typing import final

import numpy as np

from ...flow._epoch import Epoch

__all__ = ["MixOrder"]

_BLOCK = 1024


@final
class MixOrder:
    """A random interleaving of sequences, of which any stretch can be computed by itself.

    All interleavings are equally likely, and each sequence keeps its own order. The places are halved again
    and
    again: how many members of each sequence fall into the left half is drawn from the multivariate
    hypergeometric distribution, down to blocks, in which the members are shuffled. The draws belong to their
    node of that tree, so reaching a block costs a logarithmic number of draws, and nothing is kept of the
    others.

    Args:
        sizes: the lengths of the sequences.
        epoch: where the random numbers come from.

    Example:
        >>> order = MixOrder([2, 1], Epoch(0, seed=1))
        >>> places, ranks = order.block(0)
        >>> sorted(places.tolist()), ranks
        ([0, 0, 1], [0, 0])
    """

    def __init__(self, sizes: list[int], epoch: Epoch) -> None:
        """Draws nothing yet."""
        self._sizes = np.array(sizes, np.int64)
        self._epoch = epoch
        self.blocks = -(-int(self._sizes.sum()) // _BLOCK)

    def block_of(self, index: int) -> tuple[int, int]:
        """Returns the block that a place lies in, and where in it."""
        return divmod(index, _BLOCK)

    def block(self, number: int) -> tuple[np.ndarray, list[int]]:
        """Returns the sequence of each place of a block, and how many members each has given before it."""
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
