"""Sums over all processes for layers of the model, in the same order everywhere, and the signal to stop."""

from __future__ import annotations

from typing import final

import tensorflow.compat.v1 as tf

from ..._errors import ConfigError
from ._communicator import Communicator

__all__ = ["STOPPED", "SumOverProcesses", "refuse_if_stopped"]

STOPPED = "towerpack: another process stops here"


@final
class SumOverProcesses:
    """Adds sums over all processes to a graph.

    Each sum waits for the one before it, so all processes exchange in the same order, regardless of their
    other computations in a step. Sums within the gradients of one objective do not wait for those of another
    objective, which may be trained in another session call.

    Args:
        communicator: the processes.

    Attributes:
        stop: runs instead of the step in a process that stops. It takes part in the first sum of the graph,
            after which all processes stop. None without a sum.
        taken: the summed tensors, in order, to be compared between processes.
    """

    def __init__(self, communicator: Communicator) -> None:
        self._communicator = communicator
        self._latest: dict[int | None, tf.Operation] = {}
        self.stop: tf.Operation | None = None
        self.taken: list[str] = []

    def __call__(self, tensor: tf.Tensor, objective: int | None = None) -> tf.Tensor:
        """Returns the sum of a tensor over all processes.

        Args:
            tensor: a float tensor of static shape.
            objective: the number of the objective of the current gradients; None: the model itself.

        Raises:
            ConfigError: the tensor has another dtype, or its shape is unknown.
        """
        _check(tensor)
        self.taken.append(f"{tensor.dtype.name} {tensor.shape.as_list()}")
        flat = tf.reshape(tensor, [-1])
        # A group of collectives uses one device in each process, regardless of the requesting device.
        with tf.name_scope("sum_over_processes"), tf.device(None):
            with tf.control_dependencies(self.before(objective)):
                average = self._exchange_first(flat) if self.stop is None else self._exchange(flat)
            self._latest[objective] = average.op
            return tf.reshape(average * self._communicator.size, tensor.shape)

    def before(self, objective: int | None) -> list[tf.Operation]:
        """Returns the op that the next exchange of an objective waits for, in a list; empty without one."""
        latest = self._latest.get(objective, self._latest.get(None))
        return [] if latest is None else [latest]

    def _exchange(self, flat: tf.Tensor) -> tf.Tensor:
        return self._communicator.all_reduce([flat])[0]

    def _exchange_first(self, flat: tf.Tensor) -> tf.Tensor:
        flag = tf.zeros([1], flat.dtype)
        together = self._exchange(tf.concat([flag, flat], 0))
        stopping = tf.concat([flag + 1, tf.zeros(flat.shape, flat.dtype)], 0)
        with tf.control_dependencies(None):
            self.stop = tf.group(*self._communicator.repeat_all_reduce([stopping]))
        with tf.control_dependencies([refuse_if_stopped(together[0])]):
            return tf.identity(together[1:])


def refuse_if_stopped(flag: tf.Tensor) -> tf.Operation:
    """Makes an op that fails with the text `STOPPED` if any process has set the exchanged flag."""
    return tf.debugging.Assert(tf.equal(flag, 0), [STOPPED], name="nobody_stops")


def _check(tensor: tf.Tensor) -> None:
    if not tensor.dtype.is_floating or not tensor.shape.is_fully_defined():
        raise ConfigError(
            "Layers of a model can sum only float tensors of static shapes over processes; received "
            f"{tensor.name} of shape {tensor.shape} and type {tensor.dtype.name}."
        )
