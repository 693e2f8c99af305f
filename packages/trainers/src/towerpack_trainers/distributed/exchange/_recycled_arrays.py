"""Arrays that TensorFlow takes as they are, in memory that is used again when it lets go of them."""

from __future__ import annotations

import itertools
import math
import weakref
from collections import deque
from collections.abc import Sequence
from typing import Any, final

import numpy as np

__all__ = ["RecycledArrays"]

_ALIGNMENT = 64  # bytes; TensorFlow copies what begins elsewhere
_KEEP = 2  # of each size: one that a step still reads while the next one is written


@final
class RecycledArrays:
    """Makes arrays for the results of functions that TensorFlow calls.

    A fresh array of megabytes is memory that the kernel finds and clears page by page, and TensorFlow copies
    it into another such: for an exchange over MPI, more than the exchange itself.
    """

    def __init__(self) -> None:
        self._free: dict[int, deque[bytearray]] = {}

    def row(
        self, shapes: Sequence[tuple[int, ...]], dtype: np.dtype[Any]
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """Makes arrays side by side in memory that no other array uses, their contents arbitrary.

        Returns:
            All of it, flat; and its stretches, of these shapes. Between them are gaps.
        """
        step = max(1, _ALIGNMENT // dtype.itemsize)
        sizes = [math.prod(shape) for shape in shapes]
        ends = list(itertools.accumulate(-(-size // step) * step for size in sizes))
        whole = self._flat(ends[-1] if ends else 0, dtype)
        begins = [0, *ends[:-1]]
        return whole, [
            whole[begin : begin + size].reshape(shape) for begin, size, shape in zip(begins, sizes, shapes)
        ]

    def _flat(self, size: int, dtype: np.dtype[Any]) -> np.ndarray:
        nbytes = size * dtype.itemsize
        home = self._free.setdefault(nbytes, deque(maxlen=_KEEP))
        try:
            memory = home.pop()
        except IndexError:
            memory = bytearray(nbytes + _ALIGNMENT)
        # Over bytes, no array: views of views keep the innermost array alive, which has to be this one.
        begin = -np.frombuffer(memory, np.uint8).ctypes.data % _ALIGNMENT
        array: np.ndarray = np.ndarray((size,), dtype, memory, begin)
        weakref.finalize(array, home.append, memory).atexit = False
        return array
