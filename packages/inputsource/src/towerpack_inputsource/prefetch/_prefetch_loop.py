"""The loop that moves datapoints from a flow to a buffer and records the flow's positions.

It needs neither TensorFlow nor a thread: `SessionThread` runs it.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, final

from ..specs import Array
from ._datapoint_stack import DatapointStack, StackSize
from ._flow_reader import Position, Reader
from ._input_status import Activity

__all__ = ["BufferClosed", "PrefetchLoop", "rest_after_put"]

# A full buffer is not refilled until this fraction of it was taken, but at most for this time.
_PARTS_OF_CAPACITY, _LONGEST_REST = 4, 0.03
# A put to a buffer with free space takes a tenth of it, unless it copies much data.
_MAY_HAVE_WAITED = 3e-4
# The maximum time during which datapoints are collected for one put.
_LONGEST_COLLECTION = 2e-3


class BufferClosed(Exception):
    """The buffer was closed while the loop put a datapoint into it."""


@final
class PrefetchLoop:
    """Puts datapoints until the flow ends or fails, or the buffer is closed.

    It stores the flow's position before each datapoint that may not be taken yet, so that the position of the
    *consumer* is known regardless of prefetching.

    Args:
        reader: the source of the datapoints.
        origin: the reader's position before its first datapoint.
        put: puts one datapoint, blocking while the buffer is full.
        closed: the errors that `put` raises when the buffer or the session is closed.
        in_flight: maximum number of datapoints that are put but not dequeued, including one of the current
            put; None if unlimited.
        activity: the record of the thread's time.
        put_many: puts a stack of datapoints, blocking likewise; None if the buffer takes only single ones.
        most: maximum number of datapoints in a stack.
    """

    def __init__(
        self,
        reader: Reader,
        origin: Position,
        put: Callable[..., Any],
        closed: tuple[type[BaseException], ...],
        in_flight: int | None,
        activity: Activity,
        put_many: Callable[..., Any] | None = None,
        most: int = 1,
    ) -> None:
        self._reader = reader
        self._put = put
        self._put_many = put_many
        self._closed = closed
        self._activity = activity
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        # The last element is the position after `_count` datapoints; the one i places before it, after
        # `_count - i`.
        self._positions: deque[Position] = deque([origin], None if in_flight is None else in_flight + most)
        self._count = 0
        self._stack, self._size = DatapointStack(most), StackSize(most if put_many else 1)
        # A datapoint that was read, with its position, but does not fit the stack before it.
        self._left_over: tuple[list[Array], Position] | None = None
        self._failure: BaseException | None = None

    @property
    def stopping(self) -> bool:
        """Whether `stop()` has been called."""
        return self._stopping.is_set()

    def stop(self) -> None:
        """Ends the loop before its next put; a blocked put ends when the buffer is closed."""
        self._stopping.set()

    def rest(self, seconds: float) -> None:
        """Waits for the given time, or until `stop()` is called."""
        self._stopping.wait(seconds)

    def position(self, consumed: int) -> Position:
        """Returns the flow's position after the first `consumed` datapoints. Not valid while dequeuing."""
        with self._lock:
            while len(self._positions) > self._count - consumed + 1:
                self._positions.popleft()
            return self._positions[0]

    def puts(self) -> Iterator[float]:
        """Moves datapoints, and yields the duration of each put in seconds. Ends with the flow or `stop()`.

        Raises:
            BufferClosed: the buffer was closed.
            BaseException: any error of the flow, also `SystemExit`.
        """
        enter, stopping, clock = self._activity.enter, self._stopping.is_set, time.perf_counter
        try:
            while not stopping():
                enter("flow")
                try:
                    put = self._collect(clock)
                except StopIteration:
                    return
                enter("put")
                began = clock()
                try:
                    put()
                except self._closed as error:
                    raise BufferClosed from error
                # Drop the reference before the next load, which returns memory lent by the flow.
                del put
                yield clock() - began
        finally:
            self._reader.release()
            enter("ended")

    def _collect(self, clock: Callable[[], float]) -> Callable[[], Any]:
        """Reads the datapoints of the next put, and returns the function that puts them.

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
            self._record([position])
            return partial(self._put, *arrays)
        stack = self._stack
        stack.start(arrays)
        self._fill(stack, limit, positions := [position], deadline, clock)
        self._size.note(stack.count, limit)
        self._record(positions)
        return partial(self._put_many, *stack.arrays())

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

    def _record(self, positions: Sequence[Position]) -> None:
        """Stores positions before the put: a datapoint in the buffer may be dequeued at any moment."""
        with self._lock:
            self._positions.extend(positions)
            self._count += len(positions)


def rest_after_put(put_seconds: float, capacity: int | None, is_full: Callable[[], bool]) -> float:
    """Returns the seconds to wait after a put, so that a full buffer is refilled in larger parts.

    A thread woken by each dequeue evicts the step's data from the processor's caches and slows down the step.

    Args:
        put_seconds: the duration of the put.
        capacity: capacity of the buffer; None if unbounded.
        is_full: returns whether the buffer is full now; called only after a put that may have waited.

    Example:
        >>> rest_after_put(0.001, 40, lambda: True), rest_after_put(0.001, 40, lambda: False)
        (0.01, 0.0)
    """
    puts = (capacity or 0) // _PARTS_OF_CAPACITY
    if not puts or put_seconds < _MAY_HAVE_WAITED or not is_full():
        return 0.0
    # The put waited for all or part of a step.
    return min(puts * put_seconds, _LONGEST_REST)
