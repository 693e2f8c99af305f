"""Takes the datapoints of several steps from their queue in one op, before a loop over the steps.

A dequeue is an asynchronous op, which passes each step from one of TensorFlow's threads to another. For a
small step this costs more than the step itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import numpy as np
import tensorflow.compat.v1 as tf

__all__ = ["StackedInput"]

# A dequeue costs less than copying this many bytes twice.
_LARGE = 1 << 17
# A smaller queue never holds the datapoints of many steps; that of `StagingInput` paces another thread.
_SMALLEST_QUEUE = 16


@final
class StackedInput:
    """The datapoints of several steps, stacked, in place of a dequeue in each of them.

    Each iteration sees the queue's size as if its own datapoint had been the last one taken.

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
        if len(shapes) != len(dtypes) or tf.string in dtypes:
            return None
        counts = [shape.num_elements() for shape in shapes]
        # TensorFlow divides by the size of a slice.
        if not all(counts) or np.dot(counts, [dtype.size for dtype in dtypes]) > _LARGE:
            return None
        return cls(dequeue, others)

    def take(self, fewest: int, limit: tf.Tensor) -> tf.Tensor:
        """Adds the dequeue of the datapoints that are in the queue now; returns their number.

        Args:
            fewest: the number of datapoints to wait for.
            limit: the maximum number, at least `fewest`.
        """
        with tf.device(self._dequeue.device):
            size = tf.raw_ops.QueueSizeV2(handle=self._queue)
            count = tf.clip_by_value(size, fewest, limit)
            dtypes = [tensor.dtype for tensor in self._dequeue.outputs]
            self._stacks = tf.raw_ops.QueueDequeueUpToV2(handle=self._queue, n=count, component_types=dtypes)
            taken: tf.Tensor = tf.shape(self._stacks[0])[0]  # fewer at the end of the data
            self._last = taken - 1
        return taken

    def of_iteration(self, number: tf.Tensor | int) -> list[tf.Tensor]:
        """Returns the values of the replaced tensors.

        Args:
            number: the number of the iteration, from 0.
        """
        with tf.device(self._dequeue.device):
            values = [tf.gather(stack, number) for stack in self._stacks]
            for value, tensor in zip(values, self._dequeue.outputs):
                value.set_shape(tensor.shape)
            left = self._last - number
            sizes = [tf.raw_ops.QueueSizeV2(handle=self._queue) + left for _ in self._sizes]
        return [*values, *sizes]
