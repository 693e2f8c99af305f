"""Input through a queue of single datapoints, batched in the graph."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, final

import tensorflow.compat.v1 as tf

from .._errors import SpecError
from .._source import check_at_least
from ..specs import with_batch_size
from ._queue_input import FlowQueueInput

__all__ = ["BatchQueueInput"]


@final
class BatchQueueInput(FlowQueueInput):
    """Prefetches single datapoints into a queue; each dequeue gives a batch of them.

    Use it if the flow cannot batch and the datapoints are large. For small datapoints, `BatchData` in the
    flow and `QueueInput` are faster, since a put of batches moves more datapoints.

    The specs describe the batch for the model; the flow gives datapoints without the first axis. Their shapes
    must be fully known.

    Args:
        df: a DataFlow, or another re-iterable object, of single datapoints.
        batch_size: number of datapoints in a batch.
        capacity: number of single datapoints to prefetch; by default ten batches.
        infinite: restart at the end of a pass; batches may then span two passes. Otherwise the run ends there
            with a smaller batch of the remaining datapoints, so the first axis of the specs must be None.

    Raises:
        TypeError: `df` cannot be iterated again.
        ValueError: the batch size is below 1, or the capacity is below the batch size.

    Example:
        >>> with tf.Graph().as_default():
        ...     source = BatchQueueInput([[1], [2], [3]], batch_size=2, infinite=False)
        ...     source.setup([tf.TensorSpec([None], tf.int32, "n")])
        ...     [n] = source.get_input_tensors()
        ...     with tf.train.MonitoredTrainingSession(hooks=source.hooks()) as session:
        ...         while not session.should_stop():
        ...             print(session.run(n))
        [1 2]
        [3]
    """

    def __init__(
        self, df: Iterable[Any], batch_size: int, capacity: int | None = None, infinite: bool = True
    ) -> None:
        check_at_least(1, "batch_size", batch_size, "the number of datapoints in a batch")
        capacity = 10 * batch_size if capacity is None else capacity
        if capacity < batch_size:
            raise ValueError(
                f"A queue of capacity {capacity} cannot hold a batch of {batch_size}. Give a capacity of at "
                f"least {batch_size}, in single datapoints."
            )
        super().__init__(df, capacity, infinite)
        self._batch_size = batch_size

    def size(self) -> int | None:
        """Returns the number of batches in one pass, or None if the flow has no length."""
        size = super().size()
        if size is None or not self.infinite:
            return None if size is None else math.ceil(size / self._batch_size)
        return max(size // self._batch_size, min(size, 1))

    def _narrowed(self, specs: tuple[tf.TensorSpec, ...]) -> tuple[tf.TensorSpec, ...]:
        return with_batch_size(specs, self._batch_size if self.infinite else None)

    def _datapoint_specs(self, specs: tuple[tf.TensorSpec, ...]) -> Sequence[tf.TensorSpec]:
        return [self._without_batch(spec) for spec in specs]

    def _without_batch(self, spec: tf.TensorSpec) -> tf.TensorSpec:
        if not spec.shape.rank or not spec.shape[1:].is_fully_defined():
            raise SpecError(
                f"BatchQueueInput stacks datapoints, so all axes but the first must be known; received "
                f"{spec.shape} for {spec.name!r}. Declare them, or batch in the flow and use QueueInput."
            )
        first = spec.shape.as_list()[0]
        if first not in {None, self._batch_size}:
            raise SpecError(
                f"The first axis of {spec.name!r} is declared as {first}, but the batch size is "
                f"{self._batch_size}. Declare it as None or {self._batch_size}."
            )
        if first is not None and not self.infinite:
            raise SpecError(
                f"The first axis of {spec.name!r} is declared as {first}, but with infinite=False the last "
                "batch may be smaller. Declare it as None."
            )
        return tf.TensorSpec(spec.shape[1:], spec.dtype, spec.name)

    def _datapoints_in(self, dequeues: int) -> int:
        return dequeues * self._batch_size

    def _get_input_tensors(self, specs: tuple[tf.TensorSpec, ...]) -> Sequence[tf.Tensor]:
        with tf.device("/cpu:0"), tf.name_scope("BatchQueueInput"):
            return self._ops.take_batch(specs, self._batch_size, rest=not self.infinite)
