"""The thread that moves datapoints from a flow into a queue. Knows no TensorFlow: calls what it is handed."""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Any

from ._flow_reader import Position, Reader
from ._input_status import Activity

ExcInfo = tuple[type[BaseException], BaseException, "TracebackType | None"]


class Pump(threading.Thread):
    """Puts one datapoint after another until the flow ends, fails, or the queue is closed.

    It remembers the flow's position before every datapoint that nobody has taken yet, so that the position
    of the *consumer* can be told however much was prefetched.

    Args:
        reader: where the datapoints come from.
        origin: the reader's position before its first datapoint.
        put: puts one datapoint, blocking while the queue is full.
        closed: what `put` raises when the queue or the session was closed.
        in_flight: how many datapoints may be put and not taken, the one being put included; None if any.
        rest: how many seconds to rest after a put that took so many.
        on_end: called after the last datapoint of a flow that ends.
        on_closed: called when somebody else closed the queue.
        on_error: called with the `sys.exc_info()` of anything that goes wrong, here or in the flow.
        activity: told what the thread is doing; has the thread's name.
    """

    def __init__(
        self,
        reader: Reader,
        origin: Position,
        put: Callable[..., Any],
        closed: tuple[type[BaseException], ...],
        in_flight: int | None,
        rest: Callable[[float], float],
        on_end: Callable[[], None],
        on_closed: Callable[[], None],
        on_error: Callable[[ExcInfo], None],
        activity: Activity,
    ) -> None:
        super().__init__(name=activity.name, daemon=True)
        self._reader = reader
        self._put = put
        self._closed = closed
        self._on_end = on_end
        self._on_closed = on_closed
        self._on_error = on_error
        self._activity = activity
        self._rest = rest
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        # The position after `_count` datapoints is last; the one after `_count - i` is i places before it.
        self._positions: deque[Position] = deque([origin], None if in_flight is None else in_flight + 1)
        self._count = 0

    def run(self) -> None:
        """Moves datapoints; whatever happens ends in exactly one of the three callbacks."""
        try:
            ended = self._move()
        except BaseException:  # also SystemExit out of a flow: a silent thread would leave the graph waiting
            self._on_error(sys.exc_info())  # type: ignore[arg-type]
            return
        finally:
            self._activity.enter("ended")
        if ended:
            self._on_end()
        elif not self._stopping.is_set():
            self._on_closed()

    def ask_to_stop(self) -> None:
        """Makes the thread leave before its next put; one that blocks must be woken by closing the queue."""
        self._stopping.set()

    def position(self, consumed: int) -> Position:
        """Returns the flow's position after the first `consumed` datapoints; not while one is being taken."""
        with self._lock:
            while len(self._positions) > self._count - consumed + 1:
                self._positions.popleft()
            return self._positions[0]

    def _move(self) -> bool:
        """Returns True at the end of the flow, False if the queue was closed."""
        take, put, position = self._reader.take, self._put, self._reader.position
        enter, stopping, clock = self._activity.enter, self._stopping.is_set, time.perf_counter
        while not stopping():
            enter("flow")
            try:
                arrays = take()
            except StopIteration:
                return True
            # Before the put: once it is in the queue, it may be taken at any moment.
            with self._lock:
                self._positions.append(position())
                self._count += 1
            enter("put")
            began = clock()
            try:
                put(*arrays)
            except self._closed:
                return False
            # Not to be held while the next one is loaded: memory that the flow lends out goes back with it.
            del arrays
            if seconds := self._rest(clock() - began):
                self._stopping.wait(seconds)
        return False
