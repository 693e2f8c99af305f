"""`BatchAllocator`: allocates the memory of batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from ..flow._columns import Field

__all__ = ["BatchAllocator", "Rows", "noop"]


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
