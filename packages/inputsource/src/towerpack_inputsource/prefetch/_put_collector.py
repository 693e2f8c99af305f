"""Collects the datapoints of the next put: one, or a stack of small ones. Needs no TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, final

from ..specs import Array
from ._datapoint_stack import DatapointStack, StackSize
from ._flow_reader import Position, Reader

__all__ = ["PutCollector"]

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
