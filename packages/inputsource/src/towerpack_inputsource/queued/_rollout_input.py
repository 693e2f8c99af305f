"""Input created by the training between its steps: batches of rollouts and replay memories."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, final

import numpy as np
import tensorflow.compat.v1 as tf

from .._errors import DatapointError, NotRunningError
from .._source import InputSource, check_at_least
from ..prefetch._one_session import SourceHook, fast_callable
from ..prefetch._put_collector import DatapointStack
from ..specs import Array, compile_check, component_of, with_batch_size
from ._queue_input import new_queue

__all__ = ["RolloutInput"]

# A put computes nothing: passing it to TensorFlow's threads takes longer than the put.
_RUN_HERE = tf.RunOptions(inter_op_thread_pool=-1)
# A call costs more than a copy of this many bytes, so smaller datapoints are combined.
_TOGETHER = 1 << 18


@final
class RolloutInput(InputSource):
    """Provides batches passed to `put`, usually by the thread that runs the steps.

    In reinforcement learning, the data of the next steps depend on the previous steps. Therefore no thread
    prefetches: between two steps, `put` adds any number of batches to the graph, and the following steps take
    them in order. Since these steps need no feeds, several of them can run in one session call, and several
    towers can take batches.

    A step that takes more batches than were put waits forever. The source has no position: the producer of
    the batches must save the state for a resumed run.

    Args:
        batch_size: the first size of all components, if it never varies. Several steps in one session call
            then take their small batches in one op.

    Raises:
        ValueError: the batch size is below 1.

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
    _enqueue_many: Callable[..., Any] | None = None
    _close: Callable[[], Any] | None = None

    def __init__(self, batch_size: int | None = None) -> None:
        if batch_size is not None:
            check_at_least(1, "batch_size", batch_size, "the number of examples in a batch")
        self._batch_size = batch_size

    def put(self, datapoint: Any) -> None:
        """Adds a datapoint, for one dequeue by one tower.

        Args:
            datapoint: a list or tuple in the order of the specs, or a dict by their names.

        Raises:
            NotRunningError: there is no live session.
            DatapointError: the datapoint does not match the specs.
        """
        if self._enqueue is None:
            raise self._no_session("put")
        self._enqueue(*self._check(datapoint))

    def put_all(self, datapoints: Iterable[Any]) -> None:
        """Adds several datapoints, one per dequeue; small ones of equal shapes share a session call.

        Args:
            datapoints: the datapoints, each as in `put`; the memory of one may be reused for the next.

        Raises:
            NotRunningError: there is no live session.
            DatapointError: a datapoint does not match the specs; earlier ones may have been added.
        """
        if self._enqueue is None or self._enqueue_many is None:
            raise self._no_session("put_all")
        stack, most = DatapointStack(0), 0
        for datapoint in datapoints:
            if stack.count < most and stack.add(datapoint):
                continue
            self._put_stack(stack)
            most = _most_together(datapoint)
            stack = DatapointStack(most)
            if most > 1:
                stack.start(datapoint)
            else:
                self._enqueue(*self._check(datapoint))
        self._put_stack(stack)

    def _put_stack(self, stack: DatapointStack) -> None:
        assert self._enqueue is not None and self._enqueue_many is not None
        arrays = stack.arrays()
        if stack.count == 1:
            self._enqueue(*self._check([array[0, ...] for array in arrays]))
        elif stack.count:
            self._enqueue_many(*self._checked_stack(arrays))

    def _checked_stack(self, arrays: list[Array]) -> list[Array]:
        try:
            return self._check_stack(arrays)
        except DatapointError:
            for datapoint in zip(*arrays):  # so that the error names the datapoint's own shape
                self._check(datapoint)
            raise

    def _narrowed(self, specs: tuple[tf.TensorSpec, ...]) -> tuple[tf.TensorSpec, ...]:
        return with_batch_size(specs, self._batch_size)

    def _setup(self, specs: tuple[tf.TensorSpec, ...]) -> None:
        stacks = [
            tf.TensorSpec(tf.TensorShape([None]).concatenate(spec.shape), spec.dtype, spec.name)
            for spec in specs
        ]
        self._check, self._check_stack = (
            compile_check([component_of(spec) for spec in each]) for each in (specs, stacks)
        )
        with (
            tf.name_scope(None),
            tf.name_scope("RolloutInput"),
            tf.device("/cpu:0"),
            tf.control_dependencies(None),
        ):
            self._queue = new_queue(specs, -1)
            self._placeholders = [tf.placeholder(spec.dtype, spec.shape, spec.name) for spec in specs]
            self._put = self._queue.enqueue(self._placeholders, name="enqueue")
            self._stacks = [tf.placeholder(spec.dtype, spec.shape, f"{spec.name}_stack") for spec in stacks]
            self._put_many = self._queue.enqueue_many(self._stacks, name="enqueue_many")
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
        return [SourceHook(start=self._start, end=self._stop)]

    def _interrupt(self) -> None:
        if self._close is not None:
            self._close()

    def _reset_state(self) -> None:
        raise NotRunningError(
            "RolloutInput.reset_state(): the training creates the batches, so a pass cannot be restarted. "
            "Evaluate by acting in an environment, or give the evaluation a separate flow."
        )

    def _start(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        self._enqueue = fast_callable(session, [self._put], self._placeholders, options=_RUN_HERE)
        self._enqueue_many = fast_callable(session, [self._put_many], self._stacks, options=_RUN_HERE)
        self._close = session.make_callable(self._end)

    def _stop(self) -> None:
        self._enqueue = self._enqueue_many = self._close = None


def _most_together(datapoint: Any) -> int:
    """Returns the number of datapoints like this one in a put; 1 for large ones and other objects."""
    if not isinstance(datapoint, (list, tuple)) or any(type(each) is not np.ndarray for each in datapoint):
        return 1
    if not DatapointStack.holds(datapoint):
        return 1
    size: int = sum(array.nbytes for array in datapoint)
    return _TOGETHER // size
