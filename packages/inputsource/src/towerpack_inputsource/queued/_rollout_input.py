"""Input that the training itself makes, between its steps: the batches of rollouts and memories."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import tensorflow.compat.v1 as tf

from .._errors import NotRunningError
from .._source import InputSource
from ..prefetch import fast_callable
from ..specs import compile_check, component_of

__all__ = ["RolloutInput"]

# A put computes nothing: handing it to TensorFlow's threads takes longer than itself.
_RUN_HERE = tf.RunOptions(inter_op_thread_pool=-1)


@final
class RolloutInput(InputSource):
    """Takes batches from whoever calls `put`, usually the thread that runs the steps.

    In reinforcement learning the data of the next steps depends on the steps before. So no thread prefetches:
    between two steps, `put` brings as many batches into the graph as are wanted, and each take of the next
    steps is one of them, in their order. As these steps are fed nothing, several of them can run in one
    session call, and several towers can take.

    A step that takes more than was put waits, and with it the training. There is no position: whoever makes
    the batches keeps what a resumed run needs.

    Example:
        >>> import numpy as np
        >>> with tf.Graph().as_default():
        ...     source = RolloutInput()
        ...     source.setup([tf.TensorSpec([None], tf.float32, "reward")])
        ...     [reward] = source.get_input_tensors()
        ...     with tf.train.MonitoredTrainingSession(hooks=source.hooks()) as session:
        ...         source.put([np.float32([1, 2])])
        ...         print(session.run(reward))
        [1. 2.]
    """

    _enqueue: Callable[..., Any] | None = None
    _close: Callable[[], Any] | None = None

    def put(self, datapoint: Any) -> None:
        """Adds a datapoint for one take of one tower.

        Args:
            datapoint: a list or tuple in the order of the specs, or a dict by their names.

        Raises:
            NotRunningError: there is no live session.
            DatapointError: the datapoint does not fit the specs.
        """
        if self._enqueue is None:
            raise self._no_session("put")
        self._enqueue(*self._check(datapoint))

    def _setup(self, specs: tuple[tf.TensorSpec, ...]) -> None:
        self._check = compile_check([component_of(spec) for spec in specs])
        with (
            tf.name_scope(None),
            tf.name_scope("RolloutInput"),
            tf.device("/cpu:0"),
            tf.control_dependencies(None),
        ):
            self._queue = tf.queue.FIFOQueue(-1, [spec.dtype for spec in specs], name="queue")
            self._placeholders = [tf.placeholder(spec.dtype, spec.shape, spec.name) for spec in specs]
            self._put = self._queue.enqueue(self._placeholders, name="enqueue")
            self._end = self._queue.close(cancel_pending_enqueues=True, name="end")

    def _get_input_tensors(self, specs: tuple[tf.TensorSpec, ...]) -> Sequence[tf.Tensor]:
        with tf.device("/cpu:0"), tf.name_scope("RolloutInput"):
            taken = self._queue.dequeue(name="dequeue")
            tensors = taken if isinstance(taken, (list, tuple)) else [taken]
            tensors = [tf.identity(tensor, spec.name) for tensor, spec in zip(tensors, specs)]
        for tensor, spec in zip(tensors, specs):
            tensor.set_shape(spec.shape)
        return tensors

    def _hooks(self) -> Sequence[tf.train.SessionRunHook]:
        return [_SessionHook(self)]

    def _interrupt(self) -> None:
        if self._close is not None:
            self._close()

    def _reset_state(self) -> None:
        raise NotRunningError(
            "RolloutInput.reset_state(): its batches are made by the training, and no pass can begin anew. "
            "Evaluate by acting in an environment, or give the evaluation a flow of its own."
        )

    def _start(self, session: tf.Session) -> None:
        self._enqueue = fast_callable(session, [self._put], self._placeholders, options=_RUN_HERE)
        self._close = session.make_callable(self._end)

    def _stop(self) -> None:
        self._enqueue = self._close = None


@final
class _SessionHook(tf.train.SessionRunHook):
    """Lets `put` reach the live session; it costs a step nothing."""

    def __init__(self, source: RolloutInput) -> None:
        self._source = source

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        self._source._start(session)

    def end(self, session: tf.Session) -> None:
        self._source._stop()
