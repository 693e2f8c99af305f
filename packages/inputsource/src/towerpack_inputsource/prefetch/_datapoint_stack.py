"""Stacks small datapoints, so that many of them enter the graph in one session call. Needs no TensorFlow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np

from ..specs import Array

__all__ = ["DatapointStack", "StackSize"]

# A session call costs as much as copying this many bytes twice, so larger datapoints are put one by one: the
# graph uses their memory without a copy.
_LARGE = 1 << 17
_MOST_BYTES = 1 << 20


@final
class DatapointStack:
    """Datapoints of equal shapes, copied into one array per component.

    Each datapoint is copied when it is added, since its memory may be reused for the next one. The arrays of
    the stack are reused as well.

    Args:
        most: the maximum number of datapoints.

    Example:
        >>> stack = DatapointStack(8)
        >>> stack.start([np.array([1, 2])])
        >>> stack.add([np.array([3, 4])]), stack.add([np.array([5])])
        (True, False)
        >>> stack.arrays()
        [array([[1, 2],
               [3, 4]])]
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._rows: list[Array] = []
        # For each component: its rows, and the dtype and shape of a row.
        self._parts: list[tuple[Array, np.dtype[Any], tuple[int, ...]]] = []
        self.count = 0

    @staticmethod
    def holds(datapoint: Sequence[Array]) -> bool:
        """Returns whether a datapoint can be stacked: it has values, and no strings.

        TensorFlow's `enqueue_many` divides by the size of a slice: SIGFPE or SIGSEGV (TensorFlow 2.20).
        """
        return bool(datapoint) and all(array.size and array.dtype.kind != "O" for array in datapoint)

    def start(self, datapoint: Sequence[Array]) -> None:
        """Empties the stack and adds a first datapoint."""
        self.count = 0
        if not self.add(datapoint):
            self._rows = [np.empty((self._most, *array.shape), array.dtype) for array in datapoint]
            self._parts = [(rows, rows.dtype, rows.shape[1:]) for rows in self._rows]
            for rows, array in zip(self._rows, datapoint):
                rows[0] = array
            self.count = 1

    def add(self, datapoint: Any) -> bool:
        """Adds a datapoint if its components are arrays with the dtypes and shapes of the first one's.

        Args:
            datapoint: a datapoint of any kind; it needs no other check.

        Returns:
            Whether it was added.
        """
        kind = type(datapoint)
        if (kind is not list and kind is not tuple) or len(datapoint) != len(self._parts):
            return False
        count = self.count
        for (rows, dtype, shape), value in zip(self._parts, datapoint):
            if type(value) is not np.ndarray or value.shape != shape or value.dtype != dtype:
                return False
            rows[count] = value
        self.count = count + 1
        return True

    def arrays(self) -> list[Array]:
        """Returns one array per component, valid until the next `start()`."""
        return [rows[: self.count] for rows in self._rows]


@final
class StackSize:
    """Chooses the number of datapoints in the next session call, from their bytes and earlier calls.

    It begins with 1, so that the first step does not wait for more, and doubles as long as the datapoints
    are small, fast and alike.

    Args:
        most: the maximum number.

    Example:
        >>> size = StackSize(4)
        >>> sizes = []
        >>> for _ in range(4):
        ...     sizes.append(size.limit(1000))
        ...     size.note(sizes[-1], sizes[-1])
        >>> sizes, size.limit(1_000_000)
        ([1, 2, 4, 4], 1)
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._size = 1

    def limit(self, size_in_bytes: int) -> int:
        """Returns the maximum number of datapoints, if each has this many bytes."""
        if size_in_bytes > _LARGE:
            return 1
        return min(self._size, _MOST_BYTES // max(size_in_bytes, 1))

    def note(self, count: int, limit: int) -> None:
        """Adds the number of datapoints in a call, and its limit."""
        if count == limit:
            self._size = min(2 * self._size, self._most)
        elif count == 1:
            self._size = max(1, self._size // 2)
