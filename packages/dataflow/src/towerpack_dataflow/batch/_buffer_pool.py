"""`BufferPool`: reusable memory for large batches."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Protocol, final

import numpy as np

from ..flow._columns import Field
from ..storage import aligned_memory

__all__ = ["BatchAllocator", "BufferLease", "BufferPool", "Rows", "freeze", "noop"]


def noop() -> None:
    """Does nothing; the default callback."""


class Rows(Protocol):
    """An array, or an object that accepts rows like an array."""

    def __setitem__(self, row: int, value: Any, /) -> None:
        """Stores a row."""


class BatchAllocator:
    """Allocates memory for batches; this class allocates new memory for each batch.

    `BufferPool` reuses memory, and the runtime's workers allocate in shared memory.
    """

    def allocate(self, fields: Sequence[Field]) -> Sequence[np.ndarray]:
        """Returns the arrays of one batch: one per shape and dtype, with arbitrary contents."""
        return [np.empty(shape, dtype) for shape, dtype in fields]

    def rows(self, buffer: np.ndarray) -> tuple[Rows, Callable[[], object]]:
        """Returns a target to assign the rows of `buffer` to in order, and a function to call at the end."""
        return buffer, noop


_LEAST = 2**16  # bytes; malloc itself keeps smaller arrays warm
_KEEP = 2**27
_SIZES = 8


class BufferPool(BatchAllocator):
    """Allocates the buffers of successive batches from memory that no view refers to any more.

    New memory for a large batch consists of thousands of pages that the kernel must find and clear, which
    takes longer than filling them. So memory returns to this pool when the last view of an array is deleted.
    A consumer that keeps all batches gets new memory for each; memory with a live view is never overwritten.

    Any number of threads may allocate and release.

    Args:
        keep: bytes of free memory to keep per size, or one buffer if that is larger.
    """

    def __init__(self, keep: int = _KEEP) -> None:
        """Creates an empty pool."""
        self._keep = keep
        self._free: dict[int, deque[np.ndarray]] = {}

    def allocate(self, fields: Sequence[Field]) -> list[np.ndarray]:
        """Returns one array per shape and dtype, with arbitrary contents."""
        return [self._array(shape, dtype) for shape, dtype in fields]

    def _array(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        size = prod(shape) * dtype.itemsize
        if size < _LEAST or dtype.hasobject:
            return np.empty(shape, dtype)
        free = self._free.get(size)
        if free is None:
            free = self._free_list(size)
        try:
            memory = free.pop()  # the most recently released one is the warmest
        except IndexError:
            memory = aligned_memory(size)
        return np.asarray(BufferLease(memory, free)).view(dtype).reshape(shape)

    def _free_list(self, size: int) -> deque[np.ndarray]:
        """Returns the list to which memory of this size is released; it drops memory beyond its length."""
        while len(self._free) >= _SIZES:
            self._free.pop(next(iter(self._free)), None)
        return self._free.setdefault(size, deque(maxlen=max(self._keep // size, 1)))


@final
class BufferLease:
    """The base of all views of one buffer; releases the memory when the last view is deleted.

    NumPy replaces the base of a view of a view by the innermost object, as long as that is a plain array. A
    lease is not an array, so every slice, reshape and transpose keeps it alive, in all consumers.

    Attributes:
        towerpack_lease: tells code that uses memory without a copy that the memory is not overwritten during
            the lifetime of this object.
    """

    towerpack_lease = True

    def __init__(self, memory: np.ndarray, free: deque[np.ndarray]) -> None:
        """Stores `memory`, to be released to `free`."""
        self._memory = memory
        self._free = free
        self.__array_interface__ = memory.__array_interface__

    def __del__(self) -> None:
        # Runs in any thread, at any line: appending to a deque is all that is safe here.
        self._free.append(self._memory)


def freeze(value: object) -> None:
    """Makes an array read-only, and its base arrays."""
    while isinstance(value, np.ndarray):
        value.flags.writeable = False
        value = value.base
