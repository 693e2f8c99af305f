"""The loop that moves datapoints from a flow to a buffer and records its positions; needs no TensorFlow."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, final

from ._flow_reader import Position, Reader
from ._input_status import Activity
from ._put_collector import PutCollector

__all__ = ["BufferClosed", "PrefetchLoop"]


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
        self._collector = PutCollector(reader, put, put_many, most)
        self._closed = closed
        self._activity = activity
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        # The last element is the position after `_count` datapoints; the one i places before it, after
        # `_count - i`.
        self._positions: deque[Position] = deque([origin], None if in_flight is None else in_flight + most)
        self._count = 0

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

    def puts(self) -> Iterator[tuple[float, int]]:
        """Moves datapoints until the flow ends or `stop()` is called.

        Yields:
            After each put, its duration in seconds and its number of datapoints.

        Raises:
            BufferClosed: the buffer was closed.
            BaseException: any error of the flow, also `SystemExit`.
        """
        enter, stopping, clock = self._activity.enter, self._stopping.is_set, time.perf_counter
        try:
            while not stopping():
                enter("flow")
                try:
                    put, positions = self._collector.next_put(clock)
                except StopIteration:
                    return
                enter("put")
                if stopping():
                    return
                # Before the put: a datapoint in the buffer may be dequeued at any moment.
                with self._lock:
                    self._positions.extend(positions)
                    self._count += len(positions)
                began = clock()
                try:
                    put()
                except self._closed as error:
                    raise BufferClosed from error
                # Drop the reference before the next load, which returns memory lent by the flow.
                del put
                yield clock() - began, len(positions)
        finally:
            self._reader.release()
            enter("ended")
