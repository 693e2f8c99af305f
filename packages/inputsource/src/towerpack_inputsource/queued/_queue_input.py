"""Inputs through a queue in the graph, filled by a thread; `QueueInput` is the default for training."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, final

import tensorflow.compat.v1 as tf

from .._errors import SetupError, SpecError
from .._flow_input import FlowInput
from .._source import NO_PAUSE, check_at_least, make_counter
from ..prefetch._flow_reader import (
    FlowReader,
    flow_batch_size,
    flow_state,
    makes_blocks,
    needs_no_training,
    unread_state,
)
from ..prefetch._input_status import InputStatus
from ..prefetch._one_session import END_OF_DATA, LOST_SESSION, SourceHook, ends_run_on_error
from ..prefetch._session_thread import SessionThread
from ..specs import compile_block_check, compile_check, component_of, with_batch_size

__all__ = ["FlowQueueInput", "QueueInput", "QueueOps", "ZMQInput", "default_capacity", "new_queue"]


# Many small datapoints are used while the thread makes the next ones, but their memory stays small.
_CAPACITY, _MOST_SMALL, _BYTES_OF_SMALL = 50, 256, 1 << 22
# The assumed size of an axis that the specs leave open.
_OPEN_AXIS = 128


def default_capacity(specs: Sequence[tf.TensorSpec]) -> int:
    """Returns 50, or up to 256 if datapoints are known to be so small that 4 MB suffice.

    Args:
        specs: the components of a datapoint.

    Example:
        >>> batch = tf.TensorSpec([None, 64], tf.float32), tf.TensorSpec([None], tf.int32)
        >>> default_capacity(batch), default_capacity([tf.TensorSpec([32, 224, 224, 3], tf.uint8)])
        (126, 50)
    """
    sizes = [_known_bytes(spec) for spec in specs]
    return max(_CAPACITY, min(_MOST_SMALL, int(_BYTES_OF_SMALL / max(1, sum(sizes)))))


def _known_bytes(spec: tf.TensorSpec) -> float:
    """Returns the size of a component; infinity if it is unknown."""
    if spec.shape.rank is None or spec.dtype == tf.string:
        return math.inf
    axes = [_OPEN_AXIS if axis is None else axis for axis in spec.shape.as_list()]
    return float(math.prod(axes) * spec.dtype.size)


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
        self._queue = queue = new_queue(specs, capacity) if queue is None else _checked_queue(specs, queue)
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


def new_queue(specs: Sequence[tf.TensorSpec], capacity: int) -> tf.queue.FIFOQueue:
    """Adds a queue of datapoints; it has their shapes if these are completely known.

    Args:
        specs: the components of a datapoint.
        capacity: the maximum number of datapoints; -1: without a limit.
    """
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


# A put is at most this part of the queue, so that steps find datapoints in it meanwhile.
_PARTS_OF_QUEUE, _MOST_STACKED = 4, 64


class FlowQueueInput(FlowInput):
    """Reads a flow into a queue with a thread. Subclasses may change the specs of a put, and the dequeue.

    Args:
        df: a DataFlow, or another re-iterable object.
        capacity: number of datapoints to prefetch; None: chosen from their size.
        infinite: restart at the end of a pass.
        queue: a queue to use instead of a new one.

    Raises:
        TypeError: `df` cannot be iterated again.
    """

    def __init__(self, df: Iterable[Any], capacity: int | None, infinite: bool, queue: Any = None) -> None:
        super().__init__(df, infinite)
        self._capacity = capacity
        self._queue = queue
        self._held_back = 0
        self._thread: SessionThread | None = None

    def status(self) -> InputStatus:
        """Returns the fill of the queue and the activity of the thread; see `InputSource.status()`."""
        name = type(self).__name__
        return InputStatus(name) if self._thread is None else self._thread.status(name)

    def _datapoint_specs(self, specs: tuple[tf.TensorSpec, ...]) -> Sequence[tf.TensorSpec]:
        """Returns the specs of the flow's datapoints; by default those of a dequeue."""
        return specs

    def _get_input_tensors(self, specs: tuple[tf.TensorSpec, ...]) -> Sequence[tf.Tensor]:
        with tf.device("/cpu:0"), tf.name_scope(type(self).__name__):
            return self._ops.dequeue(specs)

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
        self._most = most = self._most_in_put()
        check_block = compile_block_check(put) if most > 1 and makes_blocks(self._flow) else None
        self._reader = FlowReader(
            self._flow, self.infinite, check, END_OF_DATA, LOST_SESSION, check_block, most
        )

    def _hooks(self) -> Sequence[tf.train.SessionRunHook]:
        self._ops.expect_hooks()
        # It begins before the session, so that workers are forked before a session has threads.
        return [SourceHook(begin=self._prepare, start=self._start, end=self._finish)]

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
        self._thread = SessionThread(self._ops, self._reader, session, coord, self._held_back, self._most)
        with ends_run_on_error(coord):
            self._thread.start(self._loaded)
        self._loaded = None

    def _most_in_put(self) -> int:
        """Returns the maximum number of datapoints in one put; 1 if a flow may wait for the training."""
        capacity = self._ops.capacity if self._ops.enqueue_many is not None else None
        if capacity is None or not needs_no_training(self._flow):
            return 1
        return max(1, min(capacity // _PARTS_OF_QUEUE, _MOST_STACKED))

    def _finish(self) -> None:
        if self._thread is not None:
            self._thread.finish()


@final
class ZMQInput(FlowQueueInput):
    """Prefetches datapoints sent by `send_dataflow_zmq` on other machines or processes into a queue.

    It is a `QueueInput` over a `towerpack_dataflow.remote.RemoteDataZMQ`; see its docstring for the
    guarantees: each datapoint goes to exactly one receiver. Like any live flow, it has no position: a resumed
    run uses the datapoints that the senders send then. Needs the extra `[remote]`.

    Args:
        addrs: the addresses of one or more senders: `"tcp://192.168.0.5:5555"`.
        hwm: the maximum number of datapoints per sender that are buffered here or in transit.
        capacity: number of datapoints in the queue.
        infinite: continue with the senders' next pass. Otherwise the run ends at the end of a pass.
        batch_size: length of the first axis of all components, if it is the same in all batches; it then
            becomes part of the tensors' shapes.
        options: further arguments of `RemoteDataZMQ`: `prefetch_bytes`, `max_bytes`, `timeout`, `keys`.

    Raises:
        ImportError: pyzmq or msgpack is not installed; the message names the extra.
        ValueError: an address is invalid, or the capacity is below 1.

    Example:
        >>> source = ZMQInput(["tcp://192.168.0.5:5555", "tcp://192.168.0.6:5555"], batch_size=256)
        >>> source.size() is None
        True
    """

    def __init__(
        self,
        addrs: str | Sequence[str],
        hwm: int = 50,
        *,
        capacity: int = 5,
        infinite: bool = True,
        batch_size: int | None = None,
        **options: Any,
    ) -> None:
        from towerpack_dataflow.remote import RemoteDataZMQ

        check_at_least(1, "capacity", capacity, "the number of datapoints to prefetch")
        if batch_size is not None:
            check_at_least(1, "batch_size", batch_size, "the length of the first axis")
        super().__init__(RemoteDataZMQ(addrs, hwm=hwm, **options), capacity, infinite)
        self._batch_size = batch_size

    def _narrowed(self, specs: tuple[tf.TensorSpec, ...]) -> tuple[tf.TensorSpec, ...]:
        return with_batch_size(specs, self._batch_size)


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
