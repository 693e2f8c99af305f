"""`BufferPool`: memory for large batches, used again and again."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from math import prod
from typing import final

import numpy as np

from ..flow._columns import Field
from ..storage import aligned_memory
from ._batch_allocator import BatchAllocator

__all__ = ["BufferLease", "BufferPool", "freeze"]

_LEAST = 2**16  # bytes; smaller arrays are what malloc keeps warm by itself
_KEEP = 2**27
_SIZES = 8


class BufferPool(BatchAllocator):
    """Allocates the buffers of one batch after another out of memory that no view refers to any more.

    Fresh memory for a large batch is thousands of pages that the kernel has to find and clear, which takes
    longer than filling them. So memory comes back here when the last view of an array dies. A consumer that
    holds on to all batches gets fresh memory for each; memory that it has a view of is never written again.

    Any number of threads may allocate and release.

    Args:
        keep: bytes of free memory of one size to keep, or one buffer if that is larger.
    """

    def __init__(self, keep: int = _KEEP) -> None:
        """Starts without any memory."""
        self._keep = keep
        self._free: dict[int, deque[np.ndarray]] = {}

    def allocate(self, fields: Sequence[Field]) -> list[np.ndarray]:
        """Returns an array for each shape and dtype, with arbitrary contents."""
        return [self._array(shape, dtype) for shape, dtype in fields]

    def _array(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        size = prod(shape) * dtype.itemsize
        if size < _LEAST or dtype.hasobject:
            return np.empty(shape, dtype)
        free = self._free.get(size)
        if free is None:
            free = self._free_list(size)
        try:
            memory = free.pop()  # the one released last is the warmest
        except IndexError:
            memory = aligned_memory(size)
        return np.asarray(BufferLease(memory, free)).view(dtype).reshape(shape)

    def _free_list(self, size: int) -> deque[np.ndarray]:
        """Returns the list that memory of this size is released to; it drops what exceeds its length."""
        while len(self._free) >= _SIZES:
            self._free.pop(next(iter(self._free)), None)
        return self._free.setdefault(size, deque(maxlen=max(self._keep // size, 1)))


@final
class BufferLease:
    """The base of all views of one buffer; the memory is released when the last of them dies.

    NumPy replaces the base of a view of a view by the innermost object, as long as that is a plain array.
    A lease is none, so every slice, reshape and transpose keeps it alive, wherever it is passed on to.

    Attributes:
        towerpack_lease: tells code that takes memory without a copy that the memory stays as it is for as
            long as this object lives.
    """

    towerpack_lease = True

    def __init__(self, memory: np.ndarray, free: deque[np.ndarray]) -> None:
        """Takes `memory`, which is released to `free`."""
        self._memory = memory
        self._free = free
        self.__array_interface__ = memory.__array_interface__

    def __del__(self) -> None:
        # Runs in any thread, at any line: appending to a deque is all that is safe here.
        self._free.append(self._memory)


def freeze(value: object) -> None:
    """Makes an array read-only, and the arrays that it is a view of."""
    while isinstance(value, np.ndarray):
        value.flags.writeable = False
        value = value.base
