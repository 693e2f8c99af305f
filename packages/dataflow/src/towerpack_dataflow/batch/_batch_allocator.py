"""`BatchAllocator`: the memory that batches are built in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from ..flow._columns import Field

__all__ = ["BatchAllocator", "Rows", "noop"]


def noop() -> None:
    """Does nothing: the default of a callback."""


class Rows(Protocol):
    """An array, or an object that takes rows in an array's place."""

    def __setitem__(self, row: int, value: Any, /) -> None:
        """Takes a row."""


class BatchAllocator:
    """Allocates the memory of batches: here, new memory for each.

    `BufferPool` uses memory again, and the runtime's workers give parts of shared memory.
    """

    def allocate(self, fields: Sequence[Field]) -> Sequence[np.ndarray]:
        """Returns the arrays of one batch: one for each shape and dtype, with arbitrary contents."""
        return [np.empty(shape, dtype) for shape, dtype in fields]

    def rows(self, buffer: np.ndarray) -> tuple[Rows, Callable[[], object]]:
        """Returns what to assign the rows of such an array to, in order, and what to call after the last."""
        return buffer, noop
