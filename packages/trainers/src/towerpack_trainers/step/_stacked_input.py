"""Takes the datapoints of several steps from their queue in one op, before a loop over the steps.

A dequeue is an asynchronous op, which passes each step from one of TensorFlow's threads to another. For a
small step this costs more than the step itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import final

import numpy as np
import tensorflow.compat.v1 as tf

from .._errors import ConfigError
from ..towers._copies_of_step import StepCopies

__all__ = ["StackedInput", "copies_for_loop"]

# A dequeue costs less than copying this many bytes twice.
_LARGE = 1 << 17
# A smaller queue never holds the datapoints of many steps; that of `StagingInput` paces another thread.
_SMALLEST_QUEUE = 16
# TensorFlow gathers from variables of these dtypes.
_DTYPES = frozenset(
    tf.as_dtype(name)
    for name in (
        *("bool", "bfloat16", "float16", "float32", "float64", "complex64", "complex128"),
        *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    )
)


@final
class StackedInput:
    """The datapoints of several steps, stacked, in place of a dequeue in each of them.

    Each iteration sees the queue's size as if its own datapoint had been the last one taken.

    The stacks are in variables of the session, which exist from `take` to `release`: a loop passes on each
    captured tensor by three more ops in each iteration, but not handles of variables.

    Args:
        dequeue: the dequeue of one datapoint.
        sizes: the step's ops of the size of the same queue.

    Attributes:
        replaced: the step's tensors that `of_iteration` returns values for.
    """

    def __init__(self, dequeue: tf.Operation, sizes: Sequence[tf.Operation]) -> None:
        self._dequeue, self._sizes = dequeue, sizes
        self._queue = dequeue.inputs[0]
        self.replaced = [*dequeue.outputs, *(size.outputs[0] for size in sizes)]

    @classmethod
    def of(cls, ops: Sequence[tf.Operation]) -> StackedInput | None:
        """Finds the dequeue of a step; None if its datapoints cannot be stacked, or nothing is gained.

        Args:
            ops: the ops of the step.
        """
        dequeues = [op for op in ops if op.type == "QueueDequeueV2"]
        if len(dequeues) != 1:
            return None  # several would not take the datapoints in a known order
        [dequeue] = dequeues
        queue = dequeue.inputs[0]
        others = [op for op in ops if op is not dequeue and queue in op.inputs]
        if queue.op.type != "FIFOQueueV2" or any(op.type != "QueueSizeV2" for op in others):
            return None
        if 0 <= queue.op.get_attr("capacity") < _SMALLEST_QUEUE:
            return None
        shapes = [tf.TensorShape(shape) for shape in queue.op.get_attr("shapes")]
        dtypes = [tensor.dtype for tensor in dequeue.outputs]
        if len(shapes) != len(dtypes) or not _DTYPES.issuperset(dtypes):
            return None
        counts = [shape.num_elements() for shape in shapes]
        # TensorFlow divides by the size of a slice.
        if not all(counts) or np.dot(counts, [dtype.size for dtype in dtypes]) > _LARGE:
            return None
        return cls(dequeue, others)

    def take(self, fewest: int, limit: tf.Tensor) -> None:
        """Adds the dequeue of the datapoints that are in the queue now.

        Args:
            fewest: the number of datapoints to wait for.
            limit: the maximum number, at least `fewest`.
        """
        with tf.device(self._dequeue.device), tf.name_scope("stacked_input"):
            size = tf.raw_ops.QueueSizeV2(handle=self._queue)
            count = tf.clip_by_value(size, fewest, limit)
            dtypes = [tensor.dtype for tensor in self._dequeue.outputs]
            stacks = tf.raw_ops.QueueDequeueUpToV2(handle=self._queue, n=count, component_types=dtypes)
            last = tf.shape(stacks[0])[0] - 1  # fewer at the end of the data
            self._variables = [_variable(value) for value in (*stacks, last)]
            assigned = [
                tf.raw_ops.AssignVariableOp(resource=variable, value=value)
                for variable, value in zip(self._variables, (*stacks, last))
            ]
            with tf.control_dependencies(assigned):
                *self._stacks, self._last = map(tf.identity, self._variables)

    def goes_on(self, number: tf.Tensor) -> tf.Tensor:
        """Returns whether there is a datapoint for an iteration."""
        return number <= self._number_of_last()

    def of_iteration(self, number: tf.Tensor | int) -> list[tf.Tensor]:
        """Returns the values of the replaced tensors.

        Args:
            number: the number of the iteration, from 0.
        """
        with tf.device(self._dequeue.device):
            values = [
                tf.raw_ops.ResourceGather(resource=stack, indices=number, dtype=tensor.dtype)
                for stack, tensor in zip(self._stacks, self._dequeue.outputs)
            ]
            for value, tensor in zip(values, self._dequeue.outputs):
                value.set_shape(tensor.shape)
            sizes = [
                tf.raw_ops.QueueSizeV2(handle=self._queue) + (self._number_of_last() - number)
                for _ in self._sizes
            ]
        return [*values, *sizes]

    def take_padded(self, count: tf.Tensor, most: int) -> list[tf.Tensor]:
        """Adds the dequeue of datapoints into stacks of a fixed size, as XLA needs them.

        Args:
            count: the number of datapoints to wait for; fewer come at the end of the data.
            most: the size of the stacks, at least `count`.

        Returns:
            The number of datapoints, the size of the queue after them, and the stacks.
        """
        with tf.device(self._dequeue.device), tf.name_scope("stacked_input"):
            dtypes = [tensor.dtype for tensor in self._dequeue.outputs]
            stacks = tf.raw_ops.QueueDequeueUpToV2(handle=self._queue, n=count, component_types=dtypes)
            taken = tf.shape(stacks[0])[0]
            with tf.control_dependencies([taken]):
                size = tf.raw_ops.QueueSizeV2(handle=self._queue)
            padded = []
            for stack, tensor in zip(stacks, self._dequeue.outputs):
                stack = tf.pad(stack, [[0, most - taken], *[[0, 0]] * tensor.shape.rank])
                padded.append(tf.ensure_shape(stack, [most, *tensor.shape]))
        return [taken, size, *padded]

    def slices(
        self, number: tf.Tensor | int, count: tf.Tensor, size: tf.Tensor, stacks: Sequence[tf.Tensor]
    ) -> list[tf.Tensor]:
        """Returns the values of the replaced tensors, from the results of `take_padded`.

        Args:
            number: the number of the iteration, from 0.
            count: the number of datapoints.
            size: the size of the queue after them.
            stacks: the datapoints.
        """
        return [*(stack[number] for stack in stacks), *(size + (count - 1 - number) for _ in self._sizes)]

    def release(self, done: tf.Tensor) -> tf.Tensor:
        """Adds ops that free the memory of the stacks after the loop.

        Args:
            done: a result of the loop.

        Returns:
            The same value, after these ops.
        """
        with tf.control_dependencies([done]):
            freed = [tf.raw_ops.DestroyResourceOp(resource=variable) for variable in self._variables]
        with tf.control_dependencies(freed):
            return tf.identity(done)

    def _number_of_last(self) -> tf.Tensor:
        return tf.raw_ops.ReadVariableOp(resource=self._last, dtype=tf.int32)


def copies_for_loop(
    done: tf.Operation, is_suitable: Callable[[Sequence[tf.Operation]], bool]
) -> tuple[StepCopies, StackedInput | None] | None:
    """Prepares copies of a step for a loop on a CPU; returns None if step or machine are not suitable.

    With GPUs, the host runs ahead of the steps anyway, and building a loop makes TensorFlow allocate GPU
    memory before a session can set limits.

    Args:
        done: the op of the step.
        is_suitable: takes the ops of the copies; returns whether a loop may run them.

    Returns:
        The copies, and the input that they take; None if each takes its datapoint.
    """
    if not tf.control_flow_v2_enabled() or tf.config.list_physical_devices("GPU"):
        return None
    try:
        copies = StepCopies([done], optimize=True)
        stacked = StackedInput.of(copies.ops)
        if stacked is not None:
            copies = StepCopies([done], stacked.replaced, optimize=True)
        if not is_suitable(copies.ops):
            return None
        copies.prepare()
    except ConfigError:
        return None
    return copies, stacked


def _variable(value: tf.Tensor) -> tf.Tensor:
    """Returns the handle of a variable that exists from its first assignment."""
    name = tf.get_default_graph().unique_name("taken", mark_as_used=False)
    return tf.raw_ops.VarHandleOp(dtype=value.dtype, shape=value.shape, shared_name=name, name="taken")
