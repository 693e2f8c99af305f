"""`SumTree`: draws indices in proportion to their weights."""

from __future__ import annotations

from typing import final

import numpy as np

__all__ = ["SumTree"]

_ARITY = 16  # few levels, each with a handful of NumPy calls; a node is two cache lines of 64 bytes


@final
class SumTree:
    """Weights with a tree of sums over groups of sixteen.

    Each sum is computed from the level below, not by differences, so that rounding errors do not accumulate:
    the tree is a function of its weights (Schaul et al. 2016, appendix B.2.1, with wider nodes).

    Args:
        size: number of weights, initially 0.

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
        """Sets the weights of some indices; for a repeated index, the last one counts."""
        self._levels[0].reshape(-1)[indices] = weights
        for below, above in zip(self._levels, self._levels[1:]):
            indices = indices // _ARITY
            # The sum as `find` accumulates it: the two must agree to the last bit.
            above.reshape(-1)[indices] = np.add.accumulate(below[indices], axis=1)[:, -1]

    def find(self, points: np.ndarray) -> np.ndarray:
        """Returns the indices at which the running sum of weights exceeds some points.

        Args:
            points: float64, at least 0 and below `total`.

        Returns:
            int64; never an index with weight 0.
        """
        nodes = np.zeros(len(points), np.int64)
        every = np.arange(len(points))
        for level in reversed(self._levels):
            sums = np.add.accumulate(level[nodes], axis=1)
            child = (sums <= points[:, None]).sum(axis=1)
            before = np.where(child > 0, sums[every, child - 1], 0.0)
            nodes = nodes * _ARITY + child
            # Rounding must not lead beyond the selected child.
            points = np.minimum(points - before, np.nextafter(level.reshape(-1)[nodes], 0.0))
        return nodes
