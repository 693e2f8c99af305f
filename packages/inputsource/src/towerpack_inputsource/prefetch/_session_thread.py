"""The prefetching thread of one session: starts and ends with it, and restarts for each round."""

from __future__ import annotations

import atexit
import contextlib
import logging
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any, Protocol, final

import tensorflow.compat.v1 as tf

from .._errors import CLOSED_TOO_EARLY, NotRunningError
from ._flow_reader import Position, Reader
from ._input_status import Activity, Buffer, InputStatus
from ._one_session import QUEUE_CLOSED, SessionClosedError, fast_callable, session_may_be_closed
from ._prefetch_loop import BufferClosed, PrefetchLoop

__all__ = ["BufferOps", "SessionThread", "rest_after_put"]

_log = logging.getLogger("towerpack_inputsource")

# The maximum time that the end of a run waits for a flow that is busy with its next datapoint.
_GRACE_SECONDS = 10.0
# A put of 8 KB takes 6 microseconds in the calling thread, and 30 in a thread of TensorFlow. (Not for steps:
# unlike TensorFlow's threads, Python's threads are slow with denormal numbers.)
_RUN_HERE = tf.RunOptions(inter_op_thread_pool=-1)
# Another dequeue may take the datapoint first.
_DROP_SOON = tf.RunOptions(timeout_in_ms=200)
# After a stop of the coordinator, the time for `finish()`, which cancels no put.
_FINISH_SECONDS = 0.1
# The time for a put that has space.
_PUT_SECONDS = 0.001
# A full buffer is not refilled until this fraction of it was taken, but at most for this time.
_PARTS_OF_CAPACITY, _LONGEST_REST = 4, 0.03
# A put to a buffer with free space takes a tenth of it, unless it copies much data.
_MAY_HAVE_WAITED = 3e-4


class BufferOps(Protocol):
    """The ops of a buffer in the graph, filled by a thread.

    Attributes:
        label: name of the buffer, part of the thread's name.
        placeholders: one per component, fed by `enqueue`.
        enqueue: puts the fed datapoint.
        stacks: one placeholder per component, fed by `enqueue_many`; empty if there is no such op.
        enqueue_many: puts a stack of datapoints; None if the buffer takes only single ones.
        end: closes the buffer; remaining datapoints can still be taken.
        abort: closes the buffer and wakes a waiting put.
        drop: removes a datapoint without counting it as taken.
        zero: one or more ops that reset the counts to 0.
        renew: one or more ops that empty and open the buffer and reset the counts to 0.
        taken: number of datapoints taken.
        size: number of datapoints in the buffer.
        capacity: maximum size; None if unbounded.
        in_order: whether datapoints are taken in the order of the puts.
    """

    label: str
    placeholders: list[tf.Tensor]
    enqueue: tf.Operation
    stacks: list[tf.Tensor]
    enqueue_many: tf.Operation | None
    end: tf.Operation
    abort: tf.Operation
    drop: tf.Operation
    taken: tf.Tensor
    size: tf.Tensor
    capacity: int | None
    in_order: bool

    @property
    def zero(self) -> Any: ...

    @property
    def renew(self) -> Any: ...


@final
class SessionThread:
    """Runs a `PrefetchLoop` into a buffer in the graph during the session.

    Args:
        ops: the buffer's ops.
        reader: the source of the datapoints.
        session: the session of all threads; its graph may be final.
        coord: receives errors; the thread stops with it.
        held_back: maximum number of datapoints that are taken but not consumed.
        stacked: maximum number of datapoints in one put.
    """

    def __init__(
        self,
        ops: BufferOps,
        reader: Reader,
        session: tf.Session,
        coord: tf.train.Coordinator,
        held_back: int = 0,
        stacked: int = 1,
    ) -> None:
        self._ops = ops
        self._reader = reader
        self._session = session
        self._coord = coord
        self._held_back = held_back
        self._stacked = stacked
        self._enqueue = fast_callable(session, [ops.enqueue], ops.placeholders, options=_RUN_HERE)
        self._enqueue_many = None
        if ops.enqueue_many is not None and stacked > 1:
            self._enqueue_many = fast_callable(session, [ops.enqueue_many], ops.stacks, options=_RUN_HERE)
        self._fetch_size = fast_callable(session, fetches=[ops.size], options=_RUN_HERE)
        self._activity = Activity(f"towerpack-{ops.label}")
        self._last_count: int | None = None
        self._loop: PrefetchLoop | None = None
        self._thread: threading.Thread | None = None
        self._given_up = False
        self._finishing = threading.Event()
        # Protects loop and thread from a stop of the coordinator during a restart.
        self._lock = threading.Lock()
        self._guard = threading.Thread(
            target=self._stop_with_run, name=f"towerpack-{ops.label}-guard", daemon=True
        )

    def start(self, position: Position) -> None:
        """Starts at a position, or at the first datapoint if None."""
        self._session.run(self._ops.zero)
        self._begin(position)
        # A coordinator joins its threads before the session is closed, when a put may still wait for free
        # space. Therefore it joins a guard thread, which wakes the put.
        self._coord.register_thread(self._guard)
        self._guard.start()
        _started.add(self)

    def restart(self) -> None:
        """Discards the prefetched datapoints and starts at the first datapoint of a new pass.

        Raises:
            NotRunningError: the run is over.
        """
        with self._lock:
            self._coord.raise_requested_exception()
            if self._coord.should_stop():
                raise NotRunningError(
                    "The run is over, so its input cannot be restarted. Create a new session."
                )
            if self._at_start and not self._count_taken():
                return
            self._make_room()
            self._halt()
            if self._thread is not None:
                self._thread.join()
            self._coord.raise_requested_exception()
            self._session.run(self._ops.renew)
            self._begin(None)

    def interrupt(self) -> None:
        """Wakes a waiting put or dequeue at the end of the run."""
        with self._lock:
            self._make_room()
            self._halt()

    def finish(self) -> bool:
        """Stops the threads; the position remains known.

        Returns:
            Whether the thread has ended; it may still wait for a busy flow.
        """
        self._finishing.set()
        with self._lock:
            self._make_room()
        self._stop()
        self._coord.request_stop()
        if self._guard.ident is not None:
            self._guard.join()
        return not self._given_up

    def end_with_process(self) -> None:
        """Ends the threads like a stop of the coordinator, and waits for them, with a time limit."""
        if self._guard.is_alive():  # not in a forked process
            self._coord.request_stop()
            self._guard.join(2 * _GRACE_SECONDS)

    def position(self, count: int | None = None) -> Position:
        """Returns the flow's position after the first `count` datapoints, by default all taken ones.

        It is None if the queue reorders.
        """
        if not self._ops.in_order or self._loop is None:
            return None
        return self._loop.position(self.taken() if count is None else count)

    def taken(self) -> int:
        """Returns the number of datapoints taken since the last (re)start, also after the session.

        Raises:
            NotRunningError: the session was closed before its hooks ended.
        """
        try:
            return self._count_taken()
        except SessionClosedError as error:
            if self._last_count is None:
                raise NotRunningError(CLOSED_TOO_EARLY) from error.__cause__
            return self._last_count

    def status(self, source: str) -> InputStatus:
        """Returns the fill of the buffer and the activity of the thread; from any thread, at any time."""
        fill = None
        with contextlib.suppress(SessionClosedError):
            fill = self._size()
        buffer = Buffer(self._ops.label, fill, self._ops.capacity)
        return InputStatus(source, (buffer,), (self._activity.read(),))

    def _begin(self, position: Position) -> None:
        self._at_start = position is None
        origin = self._reader.restart(position)
        # Put but not consumed: a full buffer, those that a call of several steps has taken from a full
        # buffer, the waiting put, and the datapoints held back.
        in_flight = None if self._ops.capacity is None else 2 * self._ops.capacity + 1 + self._held_back
        self._loop = loop = PrefetchLoop(
            self._reader,
            origin,
            self._put,
            (SessionClosedError,),
            in_flight,
            self._activity,
            self._put_many if self._enqueue_many else None,
            self._stacked,
        )
        self._thread = threading.Thread(target=self._run, args=(loop,), name=self._activity.name, daemon=True)
        self._thread.start()

    def _run(self, loop: PrefetchLoop) -> None:
        """Moves datapoints in the thread; reports the end of the loop to the graph or the coordinator."""
        try:
            for put_seconds, count in loop.puts():
                if seconds := rest_after_put(put_seconds, count, self._ops.capacity, self._is_full):
                    loop.rest(seconds)
        except BufferClosed:
            if not loop.stopping:  # the buffer was closed elsewhere: the run is over
                self._coord.request_stop()
        except BaseException as error:  # also SystemExit: otherwise the graph would wait forever
            if loop.stopping and isinstance(error, QUEUE_CLOSED):
                return  # the end of the run woke a dequeue from another source
            # Set the reason before the wake-up, so that the woken step finds it.
            self._coord.request_stop(sys.exc_info())
            self._try(self._ops.abort)
        else:
            if not loop.stopping:
                self._try(self._ops.end)

    def _put(self, *arrays: Any) -> None:
        try:
            self._enqueue(*arrays)
        except Exception:  # a context manager around each put would add a third to its cost
            with session_may_be_closed():
                raise

    def _put_many(self, *stacks: Any) -> None:
        assert self._enqueue_many is not None
        with session_may_be_closed():
            self._enqueue_many(*stacks)

    def _count_taken(self) -> int:
        with session_may_be_closed():
            return int(self._session.run(self._ops.taken))

    def _size(self) -> int:
        with session_may_be_closed():
            [size] = self._fetch_size()
        return int(size)

    def _is_full(self) -> bool:
        with contextlib.suppress(SessionClosedError):
            return self._size() == self._ops.capacity
        return False

    def _stop_with_run(self) -> None:
        self._coord.wait_for_stop()
        self._finishing.wait(_FINISH_SECONDS)
        self._stop()

    def _stop(self) -> None:
        with self._lock:
            self._halt()
            self._await_end()
            with contextlib.suppress(SessionClosedError):
                self._last_count = self._count_taken()

    def _await_end(self) -> None:
        """Waits once for the end of the thread, with a time limit."""
        if self._thread is None or self._given_up:
            return
        self._thread.join(_GRACE_SECONDS)
        if self._thread.is_alive():
            self._given_up = True
            _log.warning(
                "The %r is still busy with its next datapoint %g s after the end of the run; its thread will "
                "end with it.",
                self._reader,
                _GRACE_SECONDS,
            )

    def _halt(self) -> None:
        if self._loop is not None:
            self._loop.stop()
        self._try(self._ops.abort)

    def _make_room(self) -> None:
        """Stops the loop and lets a waiting put complete: TensorFlow prints a warning of a cancelled one.

        Steps that take the datapoints must be over.
        """
        capacity, thread = self._ops.capacity, self._thread
        if self._loop is None or thread is None or capacity is None:
            return
        self._loop.stop()
        refusals = (SessionClosedError, tf.errors.DeadlineExceededError, tf.errors.OutOfRangeError)
        with contextlib.suppress(*refusals):
            while thread.is_alive() and self._activity.read().doing == "put":
                if self._size() <= capacity - self._stacked:
                    thread.join(_PUT_SECONDS)
                    continue
                with session_may_be_closed():
                    self._session.run(self._ops.drop, options=_DROP_SOON)

    def _try(self, op: tf.Operation) -> None:
        with contextlib.suppress(SessionClosedError), session_may_be_closed():
            self._session.run(op)


# A script may leave those of a plain session running.
_started: weakref.WeakSet[SessionThread] = weakref.WeakSet()


@atexit.register
def _end_all() -> None:
    """Ends threads before Python is finalized: one that returns from TensorFlow then aborts the process."""
    for thread in list(_started):
        thread.end_with_process()


def rest_after_put(seconds: float, count: int, capacity: int | None, is_full: Callable[[], bool]) -> float:
    """Returns the seconds to wait after a put, so that a full buffer is refilled in larger parts.

    A thread woken by each dequeue evicts the step's data from the processor's caches and slows down the step.

    Args:
        seconds: the duration of the put.
        count: the number of datapoints in the put.
        capacity: capacity of the buffer; None if unbounded.
        is_full: returns whether the buffer is full now; called only after a put that may have waited.

    Example:
        >>> rest_after_put(0.001, 1, 40, lambda: True), rest_after_put(0.001, 1, 40, lambda: False)
        (0.01, 0.0)
    """
    part = (capacity or 0) // _PARTS_OF_CAPACITY
    if not part or seconds < _MAY_HAVE_WAITED or not is_full():
        return 0.0
    # The put waited for at most one dequeue per datapoint.
    return min(part * seconds / count, _LONGEST_REST)
