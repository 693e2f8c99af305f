"""Input through a queue in the graph, filled by a thread: the default for training."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from ._datapoint import compile_check
from ._errors import NotRunningError
from ._feeder import Feeder
from ._queue_ops import QueueOps
from ._reader import FlowReader, Position, as_flow, checked_position, flow_size
from ._source import InputSource
from ._specs import component_of


class QueueInput(InputSource):
    """Prefetches a flow's datapoints into a queue on the CPU, by a thread that runs beside the training.

    Use it for training, with any number of towers: each tower takes datapoints of its own. An exception in
    the flow reaches the main thread with its own type and traceback, through the session's coordinator.

    Its queue's size, `QueueInput/queue_size`, is in the collection `MOVING_SUMMARIES`, whose scalars a
    training averages and records: near the capacity the model is slower, near 0 the data.

    Args:
        df: a DataFlow, or another iterable that can be iterated again. A datapoint is a list or tuple in the
            order of the specs, or a dict by their names.
        capacity: how many datapoints to prefetch.
        infinite: start over at the end of a pass. Otherwise the run ends there as TensorFlow's inputs end,
            with `OutOfRangeError`, after each datapoint was taken exactly once.
        queue: a queue of one's own to use instead, with one dtype per spec, made in the same graph. Through
            one that reorders, such as a `RandomShuffleQueue`, the position cannot be told and is None.

    Raises:
        TypeError: if `df` cannot be iterated again.
        ValueError: if the capacity is below 1.

    Example:
        >>> import numpy as np
        >>> with tf.Graph().as_default():
        ...     source = QueueInput([[np.float32(1)], [np.float32(2)]], infinite=False)
        ...     source.setup([tf.TensorSpec([], tf.float32, "x")])
        ...     [x] = source.get_input_tensors()
        ...     with tf.train.MonitoredTrainingSession(hooks=source.hooks()) as session:
        ...         while not session.should_stop():
        ...             print(session.run(x))
        1.0
        2.0
    """

    def __init__(
        self,
        df: Iterable[Any],
        capacity: int = 50,
        infinite: bool = True,
        queue: tf.queue.QueueBase | None = None,
    ) -> None:
        if capacity < 1:
            raise ValueError(
                f"capacity is the number of datapoints to prefetch, at least 1; received {capacity}."
            )
        self._flow = as_flow(df)
        self._capacity = capacity
        self.infinite = infinite
        self._queue = queue
        self._loaded: Position = None
        self._feeder: Feeder | None = None

    def size(self) -> int | None:
        """Returns the flow's length, or None if it is unknown."""
        return flow_size(self._flow)

    def state_dict(self) -> dict[str, Any]:
        """Returns the position after the last datapoint a step took; not to be called while a step runs.

        The position is None for a flow without `state_dict()`, and for a queue that reorders.
        """
        if self._feeder is not None:
            return {"flow": self._feeder.position()}
        if self._loaded is not None or not hasattr(self._flow, "state_dict"):
            return {"flow": self._loaded}
        return {"flow": self._flow.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Makes the next session start at a position; None is the beginning."""
        self._loaded = checked_position(self._flow, state)

    def _setup(self, specs: tuple[tf.TensorSpec, ...]) -> None:
        with (
            tf.name_scope(None),
            tf.name_scope("QueueInput"),
            tf.device("/cpu:0"),
            tf.control_dependencies(None),
        ):
            self._ops = QueueOps(specs, self._queue, self._capacity)
        check = compile_check([component_of(spec) for spec in specs])
        self._reader = FlowReader(self._flow, self.infinite, check, tf.errors.OutOfRangeError)

    def _get_input_tensors(self, specs: tuple[tf.TensorSpec, ...]) -> Sequence[tf.Tensor]:
        with tf.device("/cpu:0"):
            return self._ops.take(specs)

    def _hooks(self) -> Sequence[tf.train.SessionRunHook]:
        return [_QueueHook(self)]

    def _reset_state(self) -> None:
        if self._feeder is None:
            raise NotRunningError(
                "QueueInput.reset_state() needs the live session: create it with the source's hooks() first."
            )
        self._feeder.restart()

    def _prepare(self) -> None:
        if hasattr(self._flow, "reset_state"):
            self._flow.reset_state()

    def _start(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        if self._feeder is not None:
            self._feeder.finish()  # the session was lost and made anew
        self._feeder = Feeder(self._ops, self._reader, session, coord)
        self._feeder.start(self._loaded)
        self._loaded = None

    def _finish(self) -> None:
        if self._feeder is not None:
            self._feeder.finish()


class _QueueHook(tf.train.SessionRunHook):
    """Starts and ends the thread. Has no before_run and no after_run: it costs a step nothing."""

    def __init__(self, source: QueueInput) -> None:
        self._source = source

    def begin(self) -> None:
        # Here and not later, so that workers which fork do it before a session has threads.
        self._source._prepare()

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        self._source._start(session, coord)

    def end(self, session: tf.Session) -> None:
        self._source._finish()
