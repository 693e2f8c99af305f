"""Collects the datapoints of the next put: one, or a stack of small ones. Needs no TensorFlow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, final

import numpy as np

from ..specs import Array
from ._flow_reader import Position, Reader

__all__ = ["DatapointStack", "PutCollector", "StackSize"]

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


# The maximum time during which datapoints are collected for one put.
_LONGEST_COLLECTION = 2e-3


@final
class PutCollector:
    """Reads datapoints for puts of one or several.

    Args:
        reader: the source of the datapoints.
        put: puts one datapoint.
        put_many: puts a stack of datapoints; None if the buffer takes only single ones.
        most: maximum number of datapoints in a stack.
    """

    def __init__(
        self, reader: Reader, put: Callable[..., Any], put_many: Callable[..., Any] | None, most: int
    ) -> None:
        self._reader = reader
        self._put = put
        self._put_many = put_many
        self._stack, self._size = DatapointStack(most), StackSize(most)
        # A datapoint that was read, with its position, but does not fit the stack before it.
        self._left_over: tuple[list[Array], Position] | None = None
        self._failure: BaseException | None = None

    def next_put(self, clock: Callable[[], float]) -> tuple[Callable[[], Any], list[Position]]:
        """Reads the datapoints of the next put.

        Args:
            clock: returns the time in seconds.

        Returns:
            The function that puts them, and the position after each of them.

        Raises:
            StopIteration: the flow has ended.
            BaseException: any error of the flow.
        """
        deadline = clock() + _LONGEST_COLLECTION
        if self._put_many is not None and self._left_over is None and self._failure is None:
            block = self._reader.read_block()
            if block is not None:
                stacks, positions = block
                return partial(self._put_many, *stacks), positions
        arrays, position = self._next()
        limit = 1
        if self._put_many is not None and clock() < deadline and DatapointStack.holds(arrays):
            limit = self._size.limit(sum(array.nbytes for array in arrays))
            if limit == 1:
                self._size.note(1, 1)
        if limit == 1 or self._put_many is None:
            return partial(self._put, *arrays), [position]
        stack = self._stack
        stack.start(arrays)
        self._fill(stack, limit, positions := [position], deadline, clock)
        self._size.note(stack.count, limit)
        return partial(self._put_many, *stack.arrays()), positions

    def _fill(
        self,
        stack: DatapointStack,
        limit: int,
        positions: list[Position],
        deadline: float,
        clock: Callable[[], float],
    ) -> None:
        """Adds datapoints to a stack until the limit, the deadline, or a datapoint that does not fit."""
        read, checked, position = self._reader.read, self._reader.checked, self._reader.position
        try:
            while stack.count < limit and clock() < deadline:
                datapoint = read()
                if not stack.add(datapoint) and not stack.add(arrays := checked(datapoint)):
                    self._left_over = arrays, position()
                    return
                positions.append(position())
                del datapoint  # its memory is for the next one
        except BaseException as error:  # raised after the put of the datapoints before it
            self._failure = error

    def _next(self) -> tuple[list[Array], Position]:
        """Returns the next datapoint, and the position after it."""
        if self._left_over is not None:
            left_over, self._left_over = self._left_over, None
            return left_over
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        arrays = self._reader.dequeue()
        return arrays, self._reader.position()
