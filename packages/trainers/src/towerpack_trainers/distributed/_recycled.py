"""Arrays that TensorFlow takes as they are, in memory that is used again when it lets go of them."""

from __future__ import annotations

import weakref
from collections import deque

import numpy as np

__all__ = ["RecycledArrays"]

_ALIGNMENT = 64  # bytes; TensorFlow copies what begins elsewhere
_KEEP = 2  # of each size: one that a step still reads while the next one is written


class RecycledArrays:
    """Results of functions that TensorFlow calls.

    A fresh array of megabytes is memory that the kernel finds and clears page by page, and TensorFlow copies
    it into another such: for an exchange over MPI, more than the exchange itself.
    """

    def __init__(self) -> None:
        self._free: dict[int, deque[bytearray]] = {}

    def like(self, values: np.ndarray) -> np.ndarray:
        """An array of the same shape and dtype, with arbitrary contents, that nobody else sees."""
        home = self._free.setdefault(values.nbytes, deque(maxlen=_KEEP))
        try:
            memory = home.pop()
        except IndexError:
            memory = bytearray(values.nbytes + _ALIGNMENT)
        # Over bytes, no array: views of views keep the innermost array alive, which has to be this one.
        begin = -np.frombuffer(memory, np.uint8).ctypes.data % _ALIGNMENT
        array: np.ndarray = np.ndarray(values.shape, values.dtype, memory, begin)
        weakref.finalize(array, home.append, memory).atexit = False
        return array
