"""Arrays that TensorFlow uses without a copy, in memory that is reused after TensorFlow releases it."""

from __future__ import annotations

import itertools
import math
import weakref
from collections import deque
from collections.abc import Sequence
from typing import Any, final

import numpy as np

__all__ = ["RecycledArrays"]

_ALIGNMENT = 64  # bytes; TensorFlow copies arrays with another alignment
_KEEP = 2  # of each size: one that a step still reads while the next one is written


@final
class RecycledArrays:
    """Makes arrays for the results of functions that TensorFlow calls.

    For a new array of megabytes, the kernel allocates and clears memory page by page, and TensorFlow copies
    it into another such array: for an exchange over MPI, this costs more than the exchange itself.
    """

    def __init__(self) -> None:
        self._free: dict[int, deque[bytearray]] = {}

    def row(
        self, shapes: Sequence[tuple[int, ...]], dtype: np.dtype[Any]
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """Makes adjacent arrays in memory that no other array uses, with arbitrary contents.

        Returns:
            The whole memory, flat; and its parts, with the given shapes. There are gaps between them.
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
        # Over bytes instead of an array: views of views keep the innermost array alive, here this one.
        begin = -np.frombuffer(memory, np.uint8).ctypes.data % _ALIGNMENT
        array: np.ndarray = np.ndarray((size,), dtype, memory, begin)
        weakref.finalize(array, home.append, memory).atexit = False
        return array
