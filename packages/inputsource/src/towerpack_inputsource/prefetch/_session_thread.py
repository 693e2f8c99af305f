"""The thread that prefetches, in one session: started with it, restarted for each round, ended with it."""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
from typing import Any, Protocol, final

import tensorflow.compat.v1 as tf

from .._errors import CLOSED_TOO_EARLY, NotRunningError
from ._fast_callable import fast_callable
from ._flow_reader import Position, Reader
from ._input_status import Activity, Buffer, InputStatus
from ._prefetch_loop import BufferClosed, PrefetchLoop, rest_after_put

__all__ = ["BufferOps", "SessionThread"]

_log = logging.getLogger("towerpack_inputsource")

# How long the end of a run waits for a flow that is busy with its next datapoint.
_GRACE_SECONDS = 10.0
# A put of 8 KB takes 6 microseconds in the thread that calls it, and 30 in TensorFlow's. (Not for steps:
# unlike TensorFlow's own threads, Python's take their time to compute with numbers that are nearly 0.)
_RUN_HERE = tf.RunOptions(inter_op_thread_pool=-1)
# What a put raises when the queue, or the session, has been closed; the last, if the session is a server's.
_QUEUE_CLOSED: tuple[type[Exception], ...] = (
    tf.errors.CancelledError,
    tf.errors.AbortedError,
    tf.errors.FailedPreconditionError,
)
# What any op may raise then: Session.run() itself refuses with a RuntimeError.
_CLOSED: tuple[type[Exception], ...] = (*_QUEUE_CLOSED, RuntimeError)


class BufferOps(Protocol):
    """Ops of a buffer in the graph that a thread fills.

    Attributes:
        label: name of the buffer, which the thread's name contains.
        placeholders: one per component, fed by `enqueue`.
        enqueue: puts the fed datapoint.
        end: closes the buffer; its datapoints can still be taken.
        abort: closes it and wakes a put that waits.
        zero: counts from 0; an op or several.
        renew: empties and opens it, and counts from 0; likewise.
        taken: number of datapoints taken.
        size: number of datapoints in the buffer.
        capacity: largest size; None if there is no bound.
        in_order: whether datapoints are taken in the order of the puts.
    """

    label: str
    placeholders: list[tf.Tensor]
    enqueue: tf.Operation
    end: tf.Operation
    abort: tf.Operation
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
    """Keeps a `PrefetchLoop` running into a buffer in the graph for as long as the session lives.

    Args:
        ops: the buffer's ops.
        reader: where the datapoints come from.
        session: the session that all threads use; its graph may be final.
        coord: receives the errors; when it stops, so does the thread.
        held_back: largest number of datapoints that may be taken and not consumed.
    """

    def __init__(
        self,
        ops: BufferOps,
        reader: Reader,
        session: tf.Session,
        coord: tf.train.Coordinator,
        held_back: int = 0,
    ) -> None:
        self._ops = ops
        self._reader = reader
        self._session = session
        self._coord = coord
        self._held_back = held_back
        self._put = fast_callable(session, [ops.enqueue], ops.placeholders, options=_RUN_HERE)
        self._fetch_size = fast_callable(session, fetches=[ops.size], options=_RUN_HERE)
        self._activity = Activity(f"towerpack-{ops.label}")
        self._last_count: int | None = None
        # Guards loop and thread against the coordinator's stop in the middle of a restart.
        self._lock = threading.Lock()
        self._guard = threading.Thread(
            target=self._stop_with_run, name=f"towerpack-{ops.label}-guard", daemon=True
        )

    def start(self, position: Position) -> None:
        """Starts at a position, or at the first datapoint where it is None."""
        self._session.run(self._ops.zero)
        self._begin(position)
        # A coordinator joins its threads before the session is closed, when a put may still wait for room.
        # So it joins a guard, which wakes the put.
        self._coord.register_thread(self._guard)
        self._guard.start()

    def restart(self) -> None:
        """Discards the prefetched datapoints and starts at the first datapoint of a new pass.

        Raises:
            NotRunningError: the run is over.
        """
        with self._lock:
            self._coord.raise_requested_exception()
            if self._coord.should_stop():
                raise NotRunningError(
                    "The run is over, so its input cannot be restarted. Make a new session."
                )
            if self._at_start and not self._count_taken():
                return
            self._halt()
            self._thread.join()
            self._coord.raise_requested_exception()
            self._session.run(self._ops.renew)
            self._begin(None)

    def finish(self) -> None:
        """Stops the threads; the position stays known."""
        self._stop()
        self._coord.request_stop()
        self._guard.join()

    def position(self, count: int | None = None) -> Position:
        """Returns the flow's position after the first `count` datapoints, by default all that were taken.

        It is None if the queue reorders.
        """
        if not self._ops.in_order:
            return None
        return self._loop.position(self.taken() if count is None else count)

    def taken(self) -> int:
        """Returns how many datapoints were taken since the start or the last restart, also after the session.

        Raises:
            NotRunningError: the session was closed before its hooks ended.
        """
        try:
            return self._count_taken()
        except _CLOSED as error:
            if self._last_count is None:
                raise NotRunningError(CLOSED_TOO_EARLY) from error
            return self._last_count

    def status(self, source: str) -> InputStatus:
        """Returns the fill of the buffer and the activity of the thread; from any thread, at any time."""
        fill = None
        with contextlib.suppress(*_CLOSED):
            fill = self._size()
        buffer = Buffer(self._ops.label, fill, self._ops.capacity)
        return InputStatus(source, (buffer,), (self._activity.read(),))

    def _begin(self, position: Position) -> None:
        self._at_start = position is None
        origin = self._reader.restart(position)
        # Put and not consumed: a full buffer, the put that waits for room, and the datapoints held back.
        in_flight = None if self._ops.capacity is None else self._ops.capacity + 1 + self._held_back
        self._loop = loop = PrefetchLoop(
            self._reader, origin, self._put, _QUEUE_CLOSED, in_flight, self._activity
        )
        self._thread = threading.Thread(target=self._run, args=(loop,), name=self._activity.name, daemon=True)
        self._thread.start()

    def _run(self, loop: PrefetchLoop) -> None:
        """Moves datapoints in the thread; the end of the loop goes on to the graph or the coordinator."""
        try:
            for put_seconds in loop.puts():
                if seconds := rest_after_put(put_seconds, self._ops.capacity, self._is_full):
                    loop.rest(seconds)
        except BufferClosed:
            if not loop.stopping:  # something else closed the buffer: the run is over
                self._coord.request_stop()
        except BaseException:  # also SystemExit out of a flow: a silent thread would leave the graph waiting
            # First the reason, then the wake-up: a step that wakes finds the reason there.
            self._coord.request_stop(sys.exc_info())
            self._try(self._ops.abort)
        else:
            if not loop.stopping:
                self._try(self._ops.end)

    def _count_taken(self) -> int:
        return int(self._session.run(self._ops.taken))

    def _size(self) -> int:
        [size] = self._fetch_size()
        return int(size)

    def _is_full(self) -> bool:
        with contextlib.suppress(*_CLOSED):
            return self._size() == self._ops.capacity
        return False

    def _stop_with_run(self) -> None:
        self._coord.wait_for_stop()
        self._stop()

    def _stop(self) -> None:
        with self._lock:
            self._halt()
            self._thread.join(_GRACE_SECONDS)
            if self._thread.is_alive():
                _log.warning(
                    "The flow %r is still busy with its next datapoint %g s after the end of the run; "
                    "its thread will end with it.",
                    self._reader,
                    _GRACE_SECONDS,
                )
            with contextlib.suppress(*_CLOSED):
                self._last_count = self._count_taken()

    def _halt(self) -> None:
        self._loop.stop()
        self._try(self._ops.abort)

    def _try(self, op: tf.Operation) -> None:
        with contextlib.suppress(*_CLOSED):  # the session may be closed already
            self._session.run(op)
