"""Memory aligned to cache lines."""

from __future__ import annotations

import numpy as np

__all__ = ["ALIGNMENT", "aligned_memory", "aligned_size"]

ALIGNMENT = 64  # a cache line; TensorFlow and BLAS use aligned arrays without a copy


def aligned_size(size: int) -> int:
    """Rounds a number of bytes up to whole cache lines.

    Example:
        >>> aligned_size(1), aligned_size(64)
        (64, 64)
    """
    return -(-size // ALIGNMENT) * ALIGNMENT


def aligned_memory(size: int) -> np.ndarray:
    """Allocates `size` bytes, with arbitrary contents, aligned to a cache line.

    NumPy aligns allocations for its own types only, so the memory is a part of a slightly larger array.
    """
    memory = np.empty(size + ALIGNMENT, np.uint8)
    begin = -memory.__array_interface__["data"][0] % ALIGNMENT
    return memory[begin : begin + size]
