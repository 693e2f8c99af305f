"""The thread's life within one session: started with it, restarted for each round, gone with it."""

from __future__ import annotations

import contextlib
import logging
import threading
from typing import Any, Protocol

import tensorflow.compat.v1 as tf

from .._errors import NotRunningError
from ._fast_callable import fast_callable
from ._flow_reader import Position, Reader
from ._input_status import Activity, Buffer, InputStatus
from ._prefetch_thread import ExcInfo, Pump

_log = logging.getLogger(__name__)

# How long the end of a run waits for a flow that is busy with its next datapoint.
_GRACE_SECONDS = 10.0
# A full buffer is left alone until about one in so many datapoints was taken, but no longer than that.
_PARTS_OF_CAPACITY, _LONGEST_REST = 4, 0.03
# A put into a buffer with room takes a tenth of it, unless it copies much.
_MAY_HAVE_WAITED = 3e-4
# A put of 8 KB takes 6 microseconds in the thread that calls it, and 30 in TensorFlow's. (Not for steps:
# unlike TensorFlow's own threads, Python's take their time to compute with numbers that are nearly 0.)
_RUN_HERE = tf.RunOptions(inter_op_thread_pool=-1)
# What a put raises when the queue, or the session, has been closed.
_QUEUE_CLOSED: tuple[type[Exception], ...] = (tf.errors.CancelledError, tf.errors.AbortedError)
# What any op may raise then: Session.run() itself refuses with a RuntimeError.
_CLOSED: tuple[type[Exception], ...] = (*_QUEUE_CLOSED, RuntimeError)


class BufferOps(Protocol):
    """The graph's side of a buffer that a thread fills.

    Attributes:
        label: what the buffer is called; the thread is named after it.
        placeholders: one per component, fed by `enqueue`.
        enqueue: puts the fed datapoint.
        end: closes the buffer; what is in it can still be taken.
        abort: closes it and wakes a put that waits.
        zero: counts from 0; an op or several.
        renew: empties and opens it, and counts from 0; likewise.
        taken: how many datapoints were taken.
        size: how many are there.
        capacity: how many there can be; None if there is no bound.
        in_order: whether it gives back in the order of the puts.
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


class Feeder:
    """Keeps a `Pump` running into a buffer in the graph for as long as the session lives.

    Args:
        ops: the buffer's ops.
        reader: where the datapoints come from.
        session: the session that all threads use; its graph may be final.
        coord: told of errors; when it stops, so does the thread.
        held_back: how many of the datapoints taken may turn out not to have been consumed.
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
        # Guards the pump against the coordinator's stop in the middle of a restart.
        self._lock = threading.Lock()
        self._guard = threading.Thread(
            target=self._stop_with_run, name=f"towerpack-{ops.label}-guard", daemon=True
        )

    def start(self, position: Position) -> None:
        """Starts at a position, or at the first datapoint where it is None."""
        self._session.run(self._ops.zero)
        self._begin(position)
        # A coordinator joins its threads before the session is closed, when a put may still wait for room.
        # So what it joins is a guard that wakes the put.
        self._coord.register_thread(self._guard)
        self._guard.start()

    def restart(self) -> None:
        """Throws away what was prefetched and starts at the first datapoint of a new pass."""
        with self._lock:
            self._coord.raise_requested_exception()
            if self._coord.should_stop():
                raise NotRunningError(
                    "The run is over, so its input cannot be restarted. Make a new session."
                )
            if self._at_start and not self._count_taken():
                return
            self._halt()
            self._pump.join()
            self._coord.raise_requested_exception()
            self._session.run(self._ops.renew)
            self._begin(None)

    def finish(self) -> None:
        """Stops the threads; the position can still be told."""
        self._stop()
        self._coord.request_stop()
        self._guard.join()

    def position(self, count: int | None = None) -> Position:
        """Returns the flow's position after the first `count` datapoints, by default all that were taken.

        It is None if the queue reorders.
        """
        if not self._ops.in_order:
            return None
        return self._pump.position(self.taken() if count is None else count)

    def taken(self) -> int:
        """Returns how many datapoints were taken since the start or the last restart, also after the session.

        Raises:
            NotRunningError: if the session was closed behind the hooks' back.
        """
        try:
            return self._count_taken()
        except _CLOSED as error:
            if self._last_count is None:
                raise NotRunningError(
                    "The session was closed before its hooks ended, so nobody can tell how far it got. "
                    "Call state_dict() while the session is open, or end the hooks first."
                ) from error
            return self._last_count

    def status(self, source: str) -> InputStatus:
        """Returns how full the buffer is and what the thread does; from any thread, at any time."""
        fill = None
        with contextlib.suppress(*_CLOSED):
            fill = self._size()
        buffer = Buffer(self._ops.label, fill, self._ops.capacity)
        return InputStatus(source, (buffer,), (self._activity.read(),))

    def _begin(self, position: Position) -> None:
        self._at_start = position is None
        origin = self._reader.restart(position)
        # What is put and not consumed: a full buffer, one that waits for room, and what somebody holds back.
        in_flight = None if self._ops.capacity is None else self._ops.capacity + 1 + self._held_back
        self._pump = Pump(
            self._reader,
            origin,
            self._put,
            _QUEUE_CLOSED,
            in_flight,
            self._rest_after,
            self._on_end,
            self._coord.request_stop,
            self._on_error,
            self._activity,
        )
        self._pump.start()

    def _count_taken(self) -> int:
        return int(self._session.run(self._ops.taken))

    def _size(self) -> int:
        [size] = self._fetch_size()
        return int(size)

    def _rest_after(self, put_seconds: float) -> float:
        """Lets the thread of a full buffer sleep while a part of it is taken, and then fill it in one go.

        Woken by each take, it would find the step's data in the processor's caches, and replace it by its
        own: a LeNet step on two cores took 4 % longer.
        """
        takes = (self._ops.capacity or 0) // _PARTS_OF_CAPACITY
        if not takes or put_seconds < _MAY_HAVE_WAITED:
            return 0.0
        with contextlib.suppress(*_CLOSED):
            if self._size() == self._ops.capacity:
                # The put waited for a step, or for the rest of one.
                return min(takes * put_seconds, _LONGEST_REST)
        return 0.0

    def _on_end(self) -> None:
        self._try(self._ops.end)

    def _on_error(self, error: ExcInfo) -> None:
        # First the reason, then the wake-up: who wakes finds the reason there.
        self._coord.request_stop(error)
        self._try(self._ops.abort)

    def _stop_with_run(self) -> None:
        self._coord.wait_for_stop()
        self._stop()

    def _stop(self) -> None:
        with self._lock:
            self._halt()
            self._pump.join(_GRACE_SECONDS)
            if self._pump.is_alive():
                _log.warning(
                    "The flow %r is still busy with its next datapoint %g s after the end of the run; "
                    "its thread will end with it.",
                    self._reader,
                    _GRACE_SECONDS,
                )
            with contextlib.suppress(*_CLOSED):
                self._last_count = self._count_taken()

    def _halt(self) -> None:
        self._pump.ask_to_stop()
        self._try(self._ops.abort)

    def _try(self, op: tf.Operation) -> None:
        with contextlib.suppress(*_CLOSED):  # somebody may be faster
            self._session.run(op)
