"""The order of a shuffled epoch, in little memory."""

from __future__ import annotations

from typing import final

import numpy as np

__all__ = ["Permutation"]

# Below this a real permutation costs under a millisecond; above it, the computed one is good enough.
_TABLE_SIZE = 2**16
_ROUNDS = 6
_BITS_OF_HASHES = 24  # up to here, to hash all halves takes less time than to order some thousand numbers
_WINDOW = 256
_AHEAD = 4096  # twenty small operations of NumPy cost the same for a few numbers and for thousands
_MIX = np.uint64(0xD6E8FEB86659FD93)  # an odd multiplier with evenly spread bits
_HALF = np.uint64(32)


@final
class Permutation:
    """A random order of `0 .. size - 1`, in which any range can be computed independently.

    Small orders are a table. Large ones are computed piece by piece on demand, so that resuming in the middle
    of a long list costs almost nothing and every worker can hold the order of its epoch: a Feistel network
    permutes the smallest sufficient power of two, and numbers outside `size` pass through it again until they
    land inside ("cycle walking").

    Args:
        size: number of integers to permute.
        rng: source of the order; the same generator state gives the same order.

    Example:
        >>> order = Permutation(5, np.random.default_rng(0))
        >>> sorted(order.index_range(0, 5))
        [0, 1, 2, 3, 4]
    """

    def __init__(self, size: int, rng: np.random.Generator) -> None:
        """Draws the order, or the keys to compute it from."""
        self._size = size
        self._window: tuple[int, list[int]] = (0, [])
        self._table = rng.permutation(size) if size <= _TABLE_SIZE else None
        if self._table is not None:
            return
        self._ahead: tuple[range, np.ndarray] = (range(0), np.empty(0, np.intp))
        self._keys = rng.integers(2**64, size=_ROUNDS, dtype=np.uint64)
        bits = max(size - 1, 1).bit_length()
        self._low_bits = bits // 2
        self._masks = 2 ** (bits - bits // 2) - 1, 2 ** (bits // 2) - 1  # of the half that a round changes
        self._hashes: np.ndarray | None = None
        if bits <= _BITS_OF_HASHES:
            halves = np.arange(self._masks[0] + 1, dtype=np.int64)
            self._hashes = _mixed(halves, self._keys[:, None]) & np.resize(self._masks, (_ROUNDS, 1))

    @property
    def is_table(self) -> bool:
        """Whether all numbers are drawn already."""
        return self._table is not None

    def index_range(self, start: int, stop: int) -> list[int]:
        """Returns the numbers at positions `start` to `stop - 1`."""
        numbers: list[int] = self._computed(range(start, stop)).tolist()
        return numbers

    def indices(self, wanted: range) -> np.ndarray:
        """Returns the numbers at some positions as an index array; cheap if the next call continues there."""
        if self._table is not None:
            return self._table[wanted.start : wanted.stop : wanted.step]
        positions, numbers = self._ahead
        if wanted.step != positions.step or wanted[0] not in positions or wanted[-1] not in positions:
            positions = range(wanted.start, self._size, wanted.step)[: max(_AHEAD, len(wanted))]
            numbers = self._computed(positions)
            self._ahead = positions, numbers
        first = positions.index(wanted[0])
        return numbers[first : first + len(wanted)]

    def at(self, position: int) -> int:
        """Returns the number at one position; cheap if successive positions are close."""
        low, numbers = self._window
        if not low <= position < low + len(numbers):
            low = position - position % _WINDOW
            numbers = self.index_range(low, min(low + _WINDOW, self._size))
            self._window = low, numbers
        return numbers[position - low]

    def _computed(self, positions: range) -> np.ndarray:
        if self._table is not None:
            return self._table[positions.start : positions.stop : positions.step]
        values = self._encrypt(np.arange(positions.start, positions.stop, positions.step, dtype=np.int64))
        while (outside := values >= self._size).any():
            values[outside] = self._encrypt(values[outside])
        return values

    def _encrypt(self, values: np.ndarray) -> np.ndarray:
        """Passes values through the network once: a bijection of the power of two around `size`."""
        low = values & self._masks[1]
        high = values >> self._low_bits
        for turn in range(_ROUNDS):
            if turn % 2:
                low ^= self._hashed(turn, high)
            else:
                high ^= self._hashed(turn, low)
        encrypted: np.ndarray = (high << self._low_bits) | low
        return encrypted

    def _hashed(self, turn: int, half: np.ndarray) -> np.ndarray:
        """Hashes one half under a round's key to as many bits as the other half has."""
        if self._hashes is not None:
            hashed: np.ndarray = self._hashes[turn].take(half)
        else:
            hashed = _mixed(half, self._keys[turn]) & self._masks[turn % 2]
        return hashed


def _mixed(half: np.ndarray, keys: np.ndarray) -> np.ndarray:
    mixed: np.ndarray = (half.view(np.uint64) ^ keys) * _MIX  # wraps, as it should
    mixed ^= mixed >> _HALF
    mixed *= _MIX
    mixed >>= _HALF
    return mixed.view(np.int64)
