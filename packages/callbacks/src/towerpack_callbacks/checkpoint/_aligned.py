"""Copies of arrays that TensorFlow takes as they are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

__all__ = ["aligned_copies"]

# Where an array begins at a multiple of it, a feed needs no copy of TensorFlow's own.
_ALIGNMENT = 64


def aligned_copies(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Copies arrays into one block of memory, each at an address that suits TensorFlow.

    One block, because its pages are large ones then: many blocks of a few megabytes take three times as long
    to write for the first time. An array of objects (strings) is returned as it is.
    """
    sizes = [0 if array.dtype.hasobject else -(-array.nbytes // _ALIGNMENT) * _ALIGNMENT for array in arrays]
    block = np.empty(sum(sizes) + _ALIGNMENT, np.uint8)
    place = -block.ctypes.data % _ALIGNMENT
    copies = []
    for array, size in zip(arrays, sizes):
        if array.dtype.hasobject:
            copies.append(array)
            continue
        copy = block[place : place + array.nbytes].view(array.dtype).reshape(array.shape)
        np.copyto(copy, array)
        copies.append(copy)
        place += size
    return copies
