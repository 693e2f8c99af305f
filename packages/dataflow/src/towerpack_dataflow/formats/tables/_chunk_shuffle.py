"""`ChunkShuffle`: a random order that reads a file in large pieces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt

from ... import _argument_checks as arguments

__all__ = ["ChunkOrder", "ChunkShuffle"]


@final
@dataclass(frozen=True)
class ChunkShuffle:
    """Requests an order with few chunks of a file in use at a time, such as row groups of Parquet.

    The chunks come in a random order, and the rows of `window` consecutive chunks are mixed. A larger window
    makes the order more like that of a full shuffle, and takes more memory.

    Args:
        window: number of chunks.

    Raises:
        ArgumentError: `window` is not positive.
    """

    window: int = 8

    def __post_init__(self) -> None:
        """Checks the window."""
        arguments.count("window", self.window)


@final
class ChunkOrder:
    """The order of one epoch: maps positions to rows, computed one window at a time.

    Args:
        sizes: number of rows of each chunk.
        window: number of chunks to mix.
        rng: source of the order; the same generator state gives the same order.

    Example:
        >>> order = ChunkOrder(np.array([2, 2, 2]), 1, np.random.default_rng(0))
        >>> sorted(order.stretch(0, 6)), {row // 2 for row in order.stretch(2, 4)} in ({0}, {1}, {2})
        ([0, 1, 2, 3, 4, 5], True)
    """

    def __init__(self, sizes: npt.NDArray[np.int64], window: int, rng: np.random.Generator) -> None:
        """Draws the order of chunks."""
        self._begins = np.concatenate([[0], np.cumsum(sizes)])
        self._chunks = rng.permutation(len(sizes))
        self._window = window
        self._seed = int(rng.integers(2**63))
        ends = np.cumsum(sizes[self._chunks])
        self._ends = np.append(ends[window - 1 : -1 : window], self._begins[-1])  # ends of windows
        self._rows: tuple[int, list[int]] = (-1, [])

    def stretch(self, start: int, stop: int) -> list[int]:
        """Returns the rows at positions `start` to `stop - 1`."""
        return [self.at(position) for position in range(start, stop)]

    def at(self, position: int) -> int:
        """Returns the row at one position; cheap if successive positions are close."""
        number = int(np.searchsorted(self._ends, position, "right"))
        if self._rows[0] != number:
            self._rows = number, self._mixed(number)
        return self._rows[1][position - (int(self._ends[number - 1]) if number else 0)]

    def _mixed(self, number: int) -> list[int]:
        chunks = self._chunks[number * self._window : (number + 1) * self._window]
        rows = np.concatenate([np.arange(self._begins[chunk], self._begins[chunk + 1]) for chunk in chunks])
        np.random.default_rng([self._seed, number]).shuffle(rows)
        mixed: list[int] = rows.tolist()
        return mixed
