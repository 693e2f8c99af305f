"""Input through a queue in the graph, filled by a thread: the default for training."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, final

import tensorflow.compat.v1 as tf

from .._source import check_at_least
from ..prefetch import flow_batch_size
from ..specs import with_batch_size
from ._flow_queue_input import FlowQueueInput

__all__ = ["QueueInput"]


@final
class QueueInput(FlowQueueInput):
    """Prefetches a flow's datapoints into a queue on the CPU, with a thread that runs during training.

    Use it for training, with any number of towers: each tower takes different datapoints. An exception in the
    flow is raised in the main thread with its type and traceback, through the session's coordinator. The
    queue's size, `QueueInput/queue_size`, is in the collection `MOVING_SUMMARIES`, which a training averages
    and records: near the capacity the model is the bottleneck, near 0 the data.

    Small datapoints enter the queue many at a time, since a session call for each would take longer than
    the step of a small network: up to 64, depending on the time that the flow takes for them. Each step still
    takes one, and the saved position is that of the step.

    Args:
        df: a DataFlow, or another re-iterable object. A datapoint is a list or tuple in the
            order of the specs, or a dict by their names.
        capacity: number of datapoints to prefetch. None: 50, or up to 256 if their size is known from the
            specs and 4 MB suffice.
        infinite: restart at the end of a pass. Otherwise the run ends there with `OutOfRangeError`, like
            other inputs of TensorFlow, after each datapoint was taken exactly once.
        queue: a queue to use instead, with one dtype per spec, created in the same graph. With a queue that
            reorders, such as a `RandomShuffleQueue`, the position is None.

    Raises:
        TypeError: `df` cannot be iterated again.
        ValueError: the capacity is below 1.

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
        capacity: int | None = None,
        infinite: bool = True,
        queue: tf.queue.QueueBase | None = None,
    ) -> None:
        if capacity is not None:
            check_at_least(1, "capacity", capacity, "the number of datapoints to prefetch")
        super().__init__(df, capacity, infinite, queue)

    def _narrowed(self, specs: tuple[tf.TensorSpec, ...]) -> tuple[tf.TensorSpec, ...]:
        return with_batch_size(specs, flow_batch_size(self._flow))
