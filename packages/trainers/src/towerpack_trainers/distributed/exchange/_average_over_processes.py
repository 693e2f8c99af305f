"""Gradients averaged over processes, all or nothing, and the way out when one of them stops."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import attrs
import tensorflow.compat.v1 as tf

from ._buckets import exchange_packed
from ._communicator import Communicator

__all__ = ["STOPPED", "Averaged", "average_over_processes", "broadcast_variables"]

_log = logging.getLogger("towerpack_trainers")

STOPPED = "towerpack: another process stops here"

# What TensorFlow's collectives carry. Others travel as the type beside them, which holds all their values.
_CARRIED = {tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.int32, tf.int64}
_CARRIED_AS = {
    tf.bool: tf.int32,
    tf.int8: tf.int32,
    tf.uint8: tf.int32,
    tf.int16: tf.int32,
    tf.uint16: tf.int32,
}
_CARRIED_AS |= {tf.uint32: tf.int64}


@attrs.frozen(eq=False)
class Averaged:
    """The exchange of a training step.

    Attributes:
        pairs: averaged gradients and variables. None of them is there before all are, and none at all if a
            process stops: then an error with the text `STOPPED` is raised instead.
        farewell: runs instead of the step in a process that stops, so that the others stop with it.
    """

    pairs: list[tuple[tf.Tensor, tf.Variable]]
    farewell: tf.Operation


def average_over_processes(pairs: Sequence[tuple[Any, tf.Variable]], communicator: Communicator) -> Averaged:
    """Averages gradients over all processes, in as few exchanges as there are types.

    Args:
        pairs: gradients and variables of this process. Sparse gradients are made dense, with a warning:
            processes touch different rows.
        communicator: carries them.
    """
    gradients = [_dense(gradient, variable) for gradient, variable in pairs]
    # In front, so that it is the first element of the first bucket.
    going_on = tf.zeros([1])

    def average_unless_stopped(buckets: list[tf.Tensor]) -> list[tf.Tensor]:
        averages = communicator.all_reduce(buckets)
        nobody_stops = tf.debugging.Assert(tf.equal(averages[0][0], 0.0), [STOPPED], name="nobody_stops")
        with tf.control_dependencies([nobody_stops]):
            return [tf.identity(average) for average in averages]

    limit = communicator.bucket_size
    with tf.name_scope("exchange"):
        _, *averages = exchange_packed([going_on, *gradients], average_unless_stopped, limit)
        nothing = [tf.zeros(gradient.shape, gradient.dtype) for gradient in gradients]
        farewell = tf.group(*exchange_packed([tf.ones([1]), *nothing], communicator.again, limit))
    return Averaged([(average, variable) for average, (_, variable) in zip(averages, pairs)], farewell)


def broadcast_variables(variables: Sequence[tf.Variable], communicator: Communicator) -> tf.Operation:
    """An op that gives variables the values they have in the chief.

    Raises:
        TypeError: a variable's type cannot be sent.
    """
    with tf.name_scope("broadcast"):
        values = [_carried(variable) for variable in variables]
        received = exchange_packed(values, communicator.broadcast, communicator.bucket_size)
        if communicator.rank == 0:
            return tf.group(*received)
        return tf.group(
            *(
                tf.assign(variable, tf.cast(value, variable.dtype.base_dtype)).op
                for variable, value in zip(variables, received)
            )
        )


def _dense(gradient: Any, variable: tf.Variable) -> tf.Tensor:
    if isinstance(gradient, tf.IndexedSlices):
        _log.warning(
            "The gradient of %s is sparse; it is made dense, %s elements, to be averaged over processes.",
            variable.op.name,
            variable.shape.num_elements(),
        )
    # Through the variable's shape: an exchange needs it static, and a gradient's may have been lost.
    return tf.ensure_shape(tf.convert_to_tensor(gradient), variable.shape)


def _carried(variable: tf.Variable) -> tf.Tensor:
    dtype, value = variable.dtype.base_dtype, variable.read_value()
    if not variable.shape.is_fully_defined():
        raise TypeError(
            f"Variable {variable.op.name!r} has shape {variable.shape}; processes exchange only "
            "variables whose shapes are known."
        )
    if dtype in _CARRIED:
        return value
    if dtype not in _CARRIED_AS:
        raise TypeError(
            f"Variable {variable.op.name!r} has dtype {dtype.name}, which processes cannot exchange. "
            "Keep it in tf.GraphKeys.LOCAL_VARIABLES, where each process has its own."
        )
    return tf.cast(value, _CARRIED_AS[dtype])
