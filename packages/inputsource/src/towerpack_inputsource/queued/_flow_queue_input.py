"""The base class of sources with a queue: a flow, the queue's ops, and the thread of each session."""

from __future__ import annotations

import abc
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, final

import tensorflow.compat.v1 as tf

from .._source import NO_PAUSE, InputSource
from ..prefetch import (
    END_OF_DATA,
    LOST_SESSION,
    FlowReader,
    InputStatus,
    Position,
    RefittedState,
    SessionThread,
    as_flow,
    ends_run_on_error,
    flow_size,
    flow_state,
    is_endless,
    is_sharded,
    loaded_position,
    needs_no_training,
    refit_position,
    seed_flow,
    unread_state,
)
from ..specs import compile_check, component_of
from ._queue_capacity import default_capacity
from ._queue_ops import QueueOps

__all__ = ["FlowQueueInput"]

# A put is at most this part of the queue, so that steps find datapoints in it meanwhile.
_PARTS_OF_QUEUE, _MOST_STACKED = 4, 64


class FlowQueueInput(InputSource):
    """Reads a flow into a queue with a thread. Subclasses define the specs of a put and the ops of a dequeue.

    Args:
        df: a DataFlow, or another re-iterable object.
        capacity: number of datapoints to prefetch; None: chosen from their size.
        infinite: restart at the end of a pass.
        queue: a queue to use instead of a new one.

    Raises:
        TypeError: `df` cannot be iterated again.
    """

    def __init__(self, df: Iterable[Any], capacity: int | None, infinite: bool, queue: Any = None) -> None:
        self._flow = as_flow(df)
        self._capacity = capacity
        self.infinite = infinite
        self._queue = queue
        self._held_back = 0
        self._loaded: Position = None
        self._thread: SessionThread | None = None

    def seed(self, seed: int) -> None:
        """Seeds the flow, if it supports seeds."""
        seed_flow(self._flow, seed)

    @property
    def sharded(self) -> bool | None:
        """Whether the flow is one process's share of an order; None if unknown."""
        return is_sharded(self._flow)

    @property
    def endless(self) -> bool:
        """Whether the source restarts at the end of a pass, or passes of the flow never end."""
        return self.infinite or is_endless(self._flow)

    def size(self) -> int | None:
        """Returns the number of dequeues in one pass, or None if the flow has no length."""
        return flow_size(self._flow)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Makes the next session start at a position; None for the beginning."""
        self._loaded = loaded_position(self._flow, state)

    def refit(self, state: Mapping[str, Any]) -> RefittedState | None:
        """Translates a state for other batches of the flow; see `InputSource.refit()`."""
        return refit_position(self._flow, state)

    def status(self) -> InputStatus:
        """Returns the fill of the queue and the activity of the thread; see `InputSource.status()`."""
        name = type(self).__name__
        return InputStatus(name) if self._thread is None else self._thread.status(name)

    @abc.abstractmethod
    def _datapoint_specs(self, specs: tuple[tf.TensorSpec, ...]) -> Sequence[tf.TensorSpec]:
        """Returns the specs of the flow's datapoints."""

    def _datapoints_in(self, dequeues: int) -> int:
        """Returns the maximum number of the flow's datapoints that `dequeues` dequeues consume."""
        return dequeues

    def _setup(self, specs: tuple[tf.TensorSpec, ...]) -> None:
        put = self._datapoint_specs(specs)
        with (
            tf.name_scope(None),
            tf.name_scope(type(self).__name__),
            tf.device("/cpu:0"),
            tf.control_dependencies(None),
        ):
            capacity = default_capacity(put) if self._capacity is None else self._capacity
            self._ops = QueueOps(put, self._queue, capacity, type(self).__name__)
        check = compile_check([component_of(spec) for spec in put])
        self._reader = FlowReader(self._flow, self.infinite, check, END_OF_DATA, LOST_SESSION)

    def _flows_read(self) -> Sequence[Any]:
        return (self._flow,)

    def _hooks(self) -> Sequence[tf.train.SessionRunHook]:
        self._ops.expect_hooks()
        return [_QueueHook(self)]

    def _state(
        self, dequeues: int | None = None, paused: AbstractContextManager[Any] = NO_PAUSE
    ) -> dict[str, Any]:
        if self._thread is not None:
            return flow_state(self._flow, self._thread.position(self._count(dequeues)))
        return unread_state(self._flow, self._loaded)

    def _count(self, dequeues: int | None) -> int | None:
        assert self._thread is not None
        # The last dequeue of a pass may be smaller.
        return None if dequeues is None else min(self._datapoints_in(dequeues), self._thread.taken())

    def _hold_back(self, dequeues: int) -> None:
        self._held_back = self._datapoints_in(dequeues)

    def _interrupt(self) -> None:
        if self._thread is not None:
            self._thread.interrupt()

    def _reset_state(self) -> None:
        if self._thread is None:
            raise self._no_session("reset_state")
        self._thread.restart()

    def _prepare(self) -> None:
        self._reader.prepare()

    def _start(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        if self._thread is not None:
            self._thread.finish()  # the session was lost and recreated
        self._thread = SessionThread(
            self._ops, self._reader, session, coord, self._held_back, self._most_in_put()
        )
        with ends_run_on_error(coord):
            self._thread.start(self._loaded)
        self._loaded = None

    def _most_in_put(self) -> int:
        """Returns the maximum number of datapoints in one put; 1 if a flow may wait for the training."""
        capacity = self._ops.capacity
        if capacity is None or not needs_no_training(self._flow):
            return 1
        return max(1, min(capacity // _PARTS_OF_QUEUE, _MOST_STACKED))

    def _finish(self) -> None:
        if self._thread is not None:
            self._thread.finish()


@final
class _QueueHook(tf.train.SessionRunHook):
    """Starts and ends the thread. It adds no cost to a step, since it has no before_run."""

    def __init__(self, source: FlowQueueInput) -> None:
        self._source = source

    def begin(self) -> None:
        # Here and not later, so that workers are forked before a session has threads.
        self._source._prepare()

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        self._source._start(session, coord)

    def end(self, session: tf.Session) -> None:
        self._source._finish()
