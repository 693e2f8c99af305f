"""The order of a shuffle with a bounded distance."""

from __future__ import annotations

from typing import NamedTuple, final

import numpy as np

from ..flow._epoch import Epoch

__all__ = ["IndexRange", "LocalOrder"]

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
