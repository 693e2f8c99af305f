"""The ops of `StagingInput`: staging areas on the devices, and the rounds that fill and empty them."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any, final

import tensorflow.compat.v1 as tf

from .._source import make_counter

__all__ = ["StagingOps"]


@final
class StagingOps:
    """Staging areas for rounds of one datapoint per tower. See `BufferOps` for the ops.

    An area cannot be closed, and a dequeue from an empty area waits forever. Therefore each staged round is
    announced in a queue on the CPU, and a step takes the announcement first: closing that queue ends, fails
    or wakes the step, as with any other input.

    Args:
        stages: number of rounds to announce ahead.

    Attributes:
        fill: the ops that stage the next round.
        towers: number of dequeues in a round.
        counts: the number of datapoints taken by each tower.
    """

    label = "staging"

    def __init__(self, stages: int) -> None:
        self.capacity: int | None = stages
        self.in_order = True
        self.fill: list[tf.Operation] = []
        self.placeholders: list[tf.Tensor] = []
        self.stacks: list[tf.Tensor] = []
        self.enqueue_many: tf.Operation | None = None
        self.counts: list[tf.Tensor] = []
        self._initializers: list[tf.Operation] = []
        self._clear: list[tf.Operation] = []
        queue = tf.queue.FIFOQueue(stages, [tf.bool], [[]], name="rounds")
        self._name = queue.queue_ref.op.name
        self.size = queue.size(name="staged")
        self.enqueue = queue.enqueue([True], name="announce")
        self.end = queue.close(name="end")
        self.abort = queue.close(cancel_pending_enqueues=True, name="abort")
        self._destroy = tf.raw_ops.DestroyResourceOp(resource=queue.queue_ref, ignore_lookup_error=True)
        begun = self._counter("begun")
        self.taken = begun.read_value()
        # Shared by all towers, so it runs once for any number of towers in a step.
        with tf.control_dependencies([queue.dequeue(name="begin")]):
            self._round = tf.identity(begun.assign_add(1, read_value=True))

    @property
    def towers(self) -> int:
        """The number of dequeues in a round: one for each tower."""
        return len(self.counts)

    @property
    def zero(self) -> Any:
        """Several ops that reset the counts to 0."""
        return self._initializers

    @property
    def renew(self) -> Any:
        """Several ops that empty all areas and reset the counts to 0."""
        return [self._destroy, *self._clear, *self._initializers]

    def dequeue(self, tensors: Sequence[tf.Tensor], device: Any) -> list[tf.Tensor]:
        """Adds an area for another tower to the current graph, and a dequeue from it.

        Args:
            tensors: the tensors to stage.
            device: the area's device; None is the current device.
        """
        tower = self.towers
        with tf.device("/cpu:0"):
            count = self._counter(f"taken{tower}")
            own = count.assign_add(1, read_value=True)
            # An Assert, since a cond would be slower than the whole input of a step.
            complete = tf.raw_ops.Assert(
                condition=tf.equal(own, self._round), data=[_left_out(tower), own, self._round]
            )
        self.counts.append(count.read_value())
        staged: dict[Any, tf.Tensor] = {}
        for text in (False, True):
            given = [tensor for tensor in tensors if (tensor.dtype == tf.string) == text]
            if given:
                # Only the CPU supports strings.
                where = (
                    tf.device("/cpu:0" if text else device) if text or device else contextlib.nullcontext()
                )
                with where:
                    taken = self._area(given, f"{self._name}/area{len(self._clear)}", complete)
                staged.update(zip((tensor.ref() for tensor in given), taken))
        return [staged[tensor.ref()] for tensor in tensors]

    def _area(self, tensors: Sequence[tf.Tensor], name: str, after: tf.Operation) -> list[tf.Tensor]:
        """Adds an unbounded area, so that puts never wait."""
        dtypes = [tensor.dtype for tensor in tensors]
        put = tf.raw_ops.Stage(values=tensors, shared_name=name)
        # Each device would create a separate area with that name.
        with tf.get_default_graph().colocate_with(put):
            self._clear.append(tf.raw_ops.StageClear(dtypes=dtypes, shared_name=name))
            with tf.control_dependencies([after]):
                taken = tf.raw_ops.Unstage(dtypes=dtypes, shared_name=name)
        self.fill.append(put)
        for tensor, given in zip(taken, tensors):
            tensor.set_shape(given.shape)
        return list(taken)

    def _counter(self, name: str) -> tf.Variable:
        variable = make_counter(name)
        self._initializers.append(variable.initializer)
        return variable


def _left_out(tower: int) -> str:
    return (
        f"StagingInput: an earlier run took the input of other towers but not of tower {tower} (from 0), "
        "because it used only some of them or failed. Every run must use the input of all towers or of "
        "none. Rounds of this tower, started rounds:"
    )
