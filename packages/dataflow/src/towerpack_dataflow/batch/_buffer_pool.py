"""Memory for large batches, used again and again."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from math import prod

import numpy as np

from ..storage._aligned_memory import aligned_memory
from ._collate import Field, Memory

_LEAST = 2**16  # bytes; smaller arrays are what malloc keeps warm by itself
_KEEP = 2**27
_SIZES = 8


class BufferPool(Memory):
    """Gives the buffers of one batch after another, each out of memory that nobody sees any longer.

    Fresh memory for a batch of 38 MB is ten thousand pages that the kernel has to find and clear, which takes
    several times as long as filling them. So memory comes back here when the last view of an array dies. A
    consumer that holds on to all batches gets fresh memory for each; what it sees is never written again.

    Any number of threads may allocate and let go.

    Args:
        keep: bytes of free memory of one size to keep, or one buffer if that is larger.
    """

    def __init__(self, keep: int = _KEEP) -> None:
        """Starts without any memory."""
        self._keep = keep
        self._free: dict[int, deque[np.ndarray]] = {}

    def allocate(self, fields: Sequence[Field]) -> list[np.ndarray]:
        """An array for each shape and dtype, with arbitrary contents."""
        return [self._array(shape, dtype) for shape, dtype in fields]

    def _array(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        size = prod(shape) * dtype.itemsize
        if size < _LEAST or dtype.hasobject:
            return np.empty(shape, dtype)
        free = self._free.get(size)
        if free is None:
            free = self._home(size)
        try:
            memory = free.pop()  # the one that came back last is the warmest
        except IndexError:
            memory = aligned_memory(size)
        return np.asarray(Lease(memory, free)).view(dtype).reshape(shape)

    def _home(self, size: int) -> deque[np.ndarray]:
        """Where memory of this size comes back to; more than it shall hold is dropped there."""
        while len(self._free) >= _SIZES:
            self._free.pop(next(iter(self._free)), None)
        return self._free.setdefault(size, deque(maxlen=max(self._keep // size, 1)))


class Lease:
    """What all views of one buffer stand on; the memory goes home when the last of them dies.

    NumPy replaces the base of a view of a view by the innermost object, as long as that is a plain array.
    This is none, so every slice, reshape and transpose keeps it alive, wherever it was passed on to.

    Attributes:
        towerpack_lease: the name by which whoever takes memory without a copy knows that it stays as it is
            for as long as this object lives.
    """

    towerpack_lease = True

    def __init__(self, memory: np.ndarray, home: deque[np.ndarray]) -> None:
        """Takes the memory."""
        self._memory = memory
        self._home = home
        self.__array_interface__ = memory.__array_interface__

    def __del__(self) -> None:
        # Runs in any thread, at any line: appending to a deque is all that is safe here.
        self._home.append(self._memory)


def freeze(value: object) -> None:
    """Lets nobody write to an array any longer, nor to what it is a view of."""
    while isinstance(value, np.ndarray):
        value.flags.writeable = False
        value = value.base
