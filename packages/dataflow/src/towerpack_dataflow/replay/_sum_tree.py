"""`SumTree`: numbers from which one is drawn in proportion to its size."""

from __future__ import annotations

from typing import final

import numpy as np

__all__ = ["SumTree"]

_ARITY = 16  # few levels, each of which is a handful of calls of NumPy; two of 64 bytes are cache lines


@final
class SumTree:
    """Weights, and sums of them by sixteens, up to the sum of all.

    Each sum is computed anew from what is below it, and not by differences, so that rounding errors do not
    add up: the tree is a function of its weights (Schaul et al. 2016, appendix B.2.1, with wider nodes).

    Args:
        size: how many weights there are; all of them are 0 at first.

    Example:
        >>> tree = SumTree(4)
        >>> tree.set(np.array([1, 3]), np.array([1.0, 3.0]))
        >>> tree.total, tree.find(np.array([0.5, 1.5, 3.9])).tolist()
        (4.0, [1, 3, 3])
    """

    def __init__(self, size: int) -> None:
        """Starts with weights of 0."""
        self._levels = [np.zeros((-(-size // _ARITY), _ARITY))]
        while len(self._levels[-1]) > 1:
            self._levels.append(np.zeros((-(-len(self._levels[-1]) // _ARITY), _ARITY)))

    @property
    def total(self) -> float:
        """The sum of all weights."""
        return float(np.add.accumulate(self._levels[-1][0])[-1])

    def get(self, indices: np.ndarray) -> np.ndarray:
        """Returns the weights of some indices."""
        return np.asarray(self._levels[0].reshape(-1)[indices])

    def clear(self) -> None:
        """Sets all weights to 0."""
        for level in self._levels:
            level[:] = 0

    def set(self, indices: np.ndarray, weights: np.ndarray | float) -> None:
        """Sets the weights of some indices; of an index that comes twice, the last one counts."""
        self._levels[0].reshape(-1)[indices] = weights
        for below, above in zip(self._levels, self._levels[1:]):
            indices = indices // _ARITY
            # The sum as `find` accumulates it: the two must agree to the last bit.
            above.reshape(-1)[indices] = np.add.accumulate(below[indices], axis=1)[:, -1]

    def find(self, points: np.ndarray) -> np.ndarray:
        """Returns the indices at which the running sum of weights goes beyond some points.

        Args:
            points: float64, at least 0 and below `total`.

        Returns:
            int64; an index with a weight of 0 is not among them.
        """
        nodes = np.zeros(len(points), np.int64)
        every = np.arange(len(points))
        for level in reversed(self._levels):
            sums = np.add.accumulate(level[nodes], axis=1)
            child = (sums <= points[:, None]).sum(axis=1)
            before = np.where(child > 0, sums[every, child - 1], 0.0)
            nodes = nodes * _ARITY + child
            # Rounding must not lead beyond the child that was found.
            points = np.minimum(points - before, np.nextafter(level.reshape(-1)[nodes], 0.0))
        return nodes
