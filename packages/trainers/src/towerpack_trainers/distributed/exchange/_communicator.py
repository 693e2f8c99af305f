"""The interface for sending tensors between processes, and arrays in reused memory for it."""

from __future__ import annotations

import abc
import itertools
import math
import weakref
from collections import deque
from collections.abc import Sequence
from typing import Any, final

import numpy as np
import tensorflow.compat.v1 as tf

from ..group._process_group import ProcessGroup

__all__ = ["Communicator", "RecycledArrays"]


class Communicator(abc.ABC):
    """Adds ops to a graph that exchange tensors between the processes of a group.

    All processes must add the same exchanges in the same order. An exchange runs in all processes or waits.

    Attributes:
        group: the processes.
        target: the target of sessions, as for `tf.Session(target)`.
        bucket_size: the number of elements up to which tensors are joined before an exchange; larger tensors
            are sent separately.

    Example:
        ```python
        averages = communicator.all_reduce([gradient for gradient, _ in pairs])
        ```
    """

    group: ProcessGroup
    target: str = ""
    bucket_size: int = 1 << 24

    @property
    def rank(self) -> int:
        """The number of this process; 0 is the chief."""
        return self.group.rank

    @property
    def size(self) -> int:
        """The number of processes."""
        return self.group.size

    @abc.abstractmethod
    def all_reduce(self, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Averages each tensor over all processes.

        Args:
            tensors: tensors with static shapes that are equal in all processes; float16, bfloat16, float32 or
                float64.
        """

    @abc.abstractmethod
    def repeat_all_reduce(self, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Repeats the exchange of the latest `all_reduce` with other values.

        Run it instead of that one, never in the same session call.
        """

    @abc.abstractmethod
    def broadcast(self, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Sends each tensor's value in the chief to all processes; also supports int32 and int64."""

    def prepare(self, config: tf.ConfigProto) -> tf.ConfigProto:
        """Prepares for sessions; returns the session options, changed as the exchange requires."""
        return config

    def close(self, failure: str | None = None) -> None:
        """Leaves the group; after a failure, the others stop and report it."""
        self.group.close(failure)


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
