"""The ops of `StagingInput`: areas on the devices, and the rounds that fill and empty them."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any, final

import tensorflow.compat.v1 as tf

from .._source import make_counter

__all__ = ["StagingOps"]


@final
class StagingOps:
    """Areas that hold a round: one datapoint for each tower. `BufferOps` describes the ops.

    An area itself cannot be closed, and a take from an empty area waits for ever. So each round that is
    staged is announced in a queue on the CPU, and a step takes the announcement first: closing that queue
    ends, fails or wakes the step, as with any other input.

    Args:
        stages: number of rounds to announce ahead.

    Attributes:
        fill: the ops that stage the next round.
        towers: number of takes in a round.
        counts: for each tower, the number of rounds in which it has taken its datapoint.
    """

    label = "staging"

    def __init__(self, stages: int) -> None:
        self.capacity: int | None = stages
        self.in_order = True
        self.fill: list[tf.Operation] = []
        self.placeholders: list[tf.Tensor] = []
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
        # Shared by all towers, so it is run once however many of them a step needs.
        with tf.control_dependencies([queue.dequeue(name="begin")]):
            self._round = tf.identity(begun.assign_add(1, read_value=True))

    @property
    def towers(self) -> int:
        """The number of takes in a round: one for each tower."""
        return len(self.counts)

    @property
    def zero(self) -> Any:
        """Counts from 0; several ops."""
        return self._initializers

    @property
    def renew(self) -> Any:
        """Empties everything and counts from 0; several ops."""
        return [self._destroy, *self._clear, *self._initializers]

    def take(self, tensors: Sequence[tf.Tensor], device: Any) -> list[tf.Tensor]:
        """Adds an area for one more tower to the current graph, and a take from it.

        Args:
            tensors: the tensors to stage.
            device: the area's device; None is the current device.
        """
        tower = self.towers
        with tf.device("/cpu:0"):
            count = self._counter(f"taken{tower}")
            own = count.assign_add(1, read_value=True)
            # An Assert, for a cond would be slower than the step's whole input.
            complete = tf.raw_ops.Assert(
                condition=tf.equal(own, self._round), data=[_left_out(tower), own, self._round]
            )
        self.counts.append(count.read_value())
        staged: dict[Any, tf.Tensor] = {}
        for text in (False, True):
            given = [tensor for tensor in tensors if (tensor.dtype == tf.string) == text]
            if given:
                # No device but the CPU has strings.
                where = (
                    tf.device("/cpu:0" if text else device) if text or device else contextlib.nullcontext()
                )
                with where:
                    taken = self._area(given, f"{self._name}/area{len(self._clear)}", complete)
                staged.update(zip((tensor.ref() for tensor in given), taken))
        return [staged[tensor.ref()] for tensor in tensors]

    def _area(self, tensors: Sequence[tf.Tensor], name: str, after: tf.Operation) -> list[tf.Tensor]:
        """Adds an area without a bound, so that no put waits in it."""
        dtypes = [tensor.dtype for tensor in tensors]
        put = tf.raw_ops.Stage(values=tensors, shared_name=name)
        # Each device would make an area of that name of its own.
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
        f"StagingInput: an earlier run took the input of other towers and not that of tower {tower} (from "
        "0), because it needed only some of them, or failed. Every run must need the input of all towers, or "
        "of none. Rounds of this tower, rounds begun:"
    )
