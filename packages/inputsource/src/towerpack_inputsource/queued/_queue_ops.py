"""The ops of `QueueInput`: queue, puts, dequeues, number of dequeues, and summary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import tensorflow.compat.v1 as tf

from .._errors import SetupError, SpecError
from .._source import make_counter

__all__ = ["QueueOps"]

_WITHOUT_HOOKS = (
    "{0} was set up in the graph of this session, but its hooks() were not requested. Therefore its queue "
    "stays empty, and a run that takes its data waits forever: create the session with hooks=source.hooks()."
)


@final
class QueueOps:
    """A queue between the thread and the steps; see `BufferOps` for each op.

    Args:
        specs: the components of a put; each dequeue gives the same, or `batch_size` of them.
        queue: a queue to use, or None for a new one.
        capacity: capacity of a new queue.
        source: name of the source, for messages.

    Raises:
        SpecError: the given queue has other dtypes than the specs.
        SetupError: the given queue belongs to another graph.
    """

    label = "queue"

    def __init__(self, specs: Sequence[tf.TensorSpec], queue: Any, capacity: int, source: str) -> None:
        self._queue = queue = _new_queue(specs, capacity) if queue is None else _checked_queue(specs, queue)
        # First, so that no component can take the name used for the summary's tag.
        self.size = queue.size(name="queue_size")
        # A shared collection name, without an import: a training averages the scalars of this collection.
        tf.add_to_collection("MOVING_SUMMARIES", self.size)
        self.placeholders = [tf.placeholder(spec.dtype, spec.shape, spec.name) for spec in specs]
        self.enqueue = queue.enqueue(self.placeholders, name="enqueue")
        self.stacks: list[tf.Tensor] = []
        self.enqueue_many: tf.Operation | None = None
        self.in_order = queue.queue_ref.op.type in {"FIFOQueueV2", "PaddingFIFOQueueV2"}
        if self.in_order:
            self.stacks = [_stack_of(spec) for spec in specs]
            self.enqueue_many = queue.enqueue_many(self.stacks, name="enqueue_many")
        self.end = queue.close(name="end")
        self.abort = queue.close(cancel_pending_enqueues=True, name="abort")
        self.drop = tf.group(queue.dequeue(name="dropped"), name="drop")
        self._count = make_counter("taken")
        self.taken = self._count.read_value()
        self.zero = self._count.initializer
        # A closed queue cannot be reopened, but a destroyed one is recreated by the next op on it.
        destroy = tf.raw_ops.DestroyResourceOp(resource=queue.queue_ref, ignore_lookup_error=True)
        self.renew = tf.group(destroy, self.zero, name="renew")
        bound = queue.queue_ref.op.get_attr("capacity")
        self.capacity: int | None = bound if bound > 0 else None
        warning = tf.constant(_WITHOUT_HOOKS.format(source), name="without_hooks")
        self._warn: tf.Operation = tf.raw_ops.PrintV2(input=warning, output_stream="stderr")
        # Monitored sessions run these once, at their creation.
        tf.add_to_collection(tf.GraphKeys.TABLE_INITIALIZERS, self._warn)

    def expect_hooks(self) -> None:
        """Disables the warning of new sessions, since the hooks were requested."""
        self._warn.graph.get_collection_ref(tf.GraphKeys.TABLE_INITIALIZERS).remove(self._warn)

    def dequeue(self, specs: Sequence[tf.TensorSpec]) -> list[tf.Tensor]:
        """Adds a dequeue of the next datapoint to the current graph, with the declared shapes."""
        tensors = _as_list(self._queue.dequeue(name="dequeue"))
        return self._counted(tensors, 1, specs)

    def take_batch(self, specs: Sequence[tf.TensorSpec], batch_size: int, rest: bool) -> list[tf.Tensor]:
        """Adds a dequeue of the next `batch_size` datapoints, stacked.

        Args:
            specs: the specs of the batch.
            batch_size: number of datapoints.
            rest: whether the last batch may be smaller.
        """
        if not rest:
            return self._counted(_as_list(self._queue.dequeue_many(batch_size)), batch_size, specs)
        tensors = _as_list(self._queue.dequeue_up_to(batch_size))
        return self._counted(tensors, tf.shape(tensors[0], out_type=tf.int64)[0], specs)

    def _counted(
        self, tensors: list[tf.Tensor], count: Any, specs: Sequence[tf.TensorSpec]
    ) -> list[tf.Tensor]:
        # Counted in the graph, at no measurable cost: the thread does not know when a waiting put completed.
        with tf.control_dependencies(tensors):
            counted = self._count.assign_add(count, read_value=False)
        with tf.control_dependencies([counted]):
            tensors = [tf.identity(tensor, spec.name) for tensor, spec in zip(tensors, specs)]
        for tensor, spec in zip(tensors, specs):
            tensor.set_shape(spec.shape)
        return tensors


def _stack_of(spec: tf.TensorSpec) -> tf.Tensor:
    return tf.placeholder(spec.dtype, tf.TensorShape([None]).concatenate(spec.shape), f"{spec.name}_stack")


def _new_queue(specs: Sequence[tf.TensorSpec], capacity: int) -> tf.queue.FIFOQueue:
    shapes = [spec.shape for spec in specs]
    known = all(shape.is_fully_defined() for shape in shapes)
    return tf.queue.FIFOQueue(
        capacity, [spec.dtype for spec in specs], shapes if known else None, name="queue"
    )


def _checked_queue(specs: Sequence[tf.TensorSpec], queue: Any) -> Any:
    dtypes = [spec.dtype for spec in specs]
    if list(queue.dtypes) != dtypes:
        raise SpecError(
            f"The given queue holds {[dtype.name for dtype in queue.dtypes]}, but the specs declare "
            f"{[dtype.name for dtype in dtypes]}. Make the queue with one dtype per spec, in their order."
        )
    if queue.queue_ref.graph is not tf.get_default_graph():
        raise SetupError(
            "The given queue belongs to a different graph than that of setup(). Create it in the same graph."
        )
    return queue


def _as_list(tensors: Any) -> list[tf.Tensor]:
    return list(tensors) if isinstance(tensors, (list, tuple)) else [tensors]
