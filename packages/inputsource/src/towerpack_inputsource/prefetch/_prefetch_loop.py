"""The loop that moves datapoints from a flow into a buffer, and the flow's position at each of them.

It needs neither TensorFlow nor a thread of its own: `SessionThread` runs it.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, final

from ._flow_reader import Position, Reader
from ._input_status import Activity

__all__ = ["BufferClosed", "PrefetchLoop", "rest_after_put"]

# A full buffer is left alone until about one in so many datapoints was taken, but no longer than that.
_PARTS_OF_CAPACITY, _LONGEST_REST = 4, 0.03
# A put into a buffer with room takes a tenth of it, unless it copies much.
_MAY_HAVE_WAITED = 3e-4


class BufferClosed(Exception):
    """The buffer was closed while the loop put a datapoint into it."""


@final
class PrefetchLoop:
    """Puts one datapoint after another until the flow ends or fails, or the buffer is closed.

    It keeps the flow's position before every datapoint that may not be taken yet, so that the position
    of the *consumer* is known however much was prefetched.

    Args:
        reader: where the datapoints come from.
        origin: the reader's position before its first datapoint.
        put: puts one datapoint, blocking while the buffer is full.
        closed: the errors that `put` raises when the buffer or the session is closed.
        in_flight: how many datapoints may be put and not taken, the one being put included; None if any.
        activity: the account of the thread's time.
    """

    def __init__(
        self,
        reader: Reader,
        origin: Position,
        put: Callable[..., Any],
        closed: tuple[type[BaseException], ...],
        in_flight: int | None,
        activity: Activity,
    ) -> None:
        self._reader = reader
        self._put = put
        self._closed = closed
        self._activity = activity
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        # The position after `_count` datapoints is last; the one after `_count - i` is i places before it.
        self._positions: deque[Position] = deque([origin], None if in_flight is None else in_flight + 1)
        self._count = 0

    @property
    def stopping(self) -> bool:
        """Whether `stop()` was called."""
        return self._stopping.is_set()

    def stop(self) -> None:
        """Makes the loop end before its next put; a put that blocks ends when the buffer is closed."""
        self._stopping.set()

    def rest(self, seconds: float) -> None:
        """Waits that long, or until `stop()` is called."""
        self._stopping.wait(seconds)

    def position(self, consumed: int) -> Position:
        """Returns the flow's position after the first `consumed` datapoints; not while one is being taken."""
        with self._lock:
            while len(self._positions) > self._count - consumed + 1:
                self._positions.popleft()
            return self._positions[0]

    def puts(self) -> Iterator[float]:
        """Moves datapoints, and yields the seconds that each put took. Ends with the flow, or after `stop()`.

        Raises:
            BufferClosed: the buffer was closed.
            BaseException: any error of the flow, also `SystemExit`.
        """
        take, put, position = self._reader.take, self._put, self._reader.position
        enter, stopping, clock = self._activity.enter, self._stopping.is_set, time.perf_counter
        try:
            while not stopping():
                enter("flow")
                try:
                    arrays = take()
                except StopIteration:
                    return
                # Before the put: once it is in the buffer, it may be taken at any moment.
                with self._lock:
                    self._positions.append(position())
                    self._count += 1
                enter("put")
                began = clock()
                try:
                    put(*arrays)
                except self._closed as error:
                    raise BufferClosed from error
                # Not to be held while the next one is loaded: memory that the flow lends out goes back
                # with it.
                del arrays
                yield clock() - began
        finally:
            self._reader.release()
            enter("ended")


def rest_after_put(put_seconds: float, capacity: int | None, is_full: Callable[[], bool]) -> float:
    """Returns the seconds to rest after a put, so that a part of a full buffer is refilled in one go.

    A thread that each take wakes replaces the step's data in the processor's caches by its own, and slows
    the step down.

    Args:
        put_seconds: how long the put took.
        capacity: capacity of the buffer; None if there is no bound.
        is_full: returns whether the buffer is full now; called only after a put that may have waited.

    Example:
        >>> rest_after_put(0.001, 40, lambda: True), rest_after_put(0.001, 40, lambda: False)
        (0.01, 0.0)
    """
    takes = (capacity or 0) // _PARTS_OF_CAPACITY
    if not takes or put_seconds < _MAY_HAVE_WAITED or not is_full():
        return 0.0
    # The put waited for a step, or for the rest of one.
    return min(takes * put_seconds, _LONGEST_REST)
