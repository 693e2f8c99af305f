"""Assigns the places of a random interleaving to sequences, in little memory."""

from __future__ import annotations

from typing import final

import numpy as np

from ...flow._epoch import Epoch

__all__ = ["MixOrder"]

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
