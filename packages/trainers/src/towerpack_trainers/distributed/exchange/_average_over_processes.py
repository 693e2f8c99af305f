"""Gradients averaged and values summed over processes, and the signal that ends the others' next step."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, final

import attrs
import tensorflow.compat.v1 as tf

from ..._errors import ConfigError
from ...towers._builder import UNSYNCHRONIZED
from ...towers._objective import Pairs
from ...towers._tensor_buckets import Buckets
from ._communicator import Communicator

__all__ = [
    "STOPPED",
    "AverageOverProcesses",
    "Averaged",
    "SumOverProcesses",
    "average_over_processes",
    "broadcast_variables",
    "exchange_packed",
    "refuse_if_stopped",
]

_log = logging.getLogger("towerpack_trainers")


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


# The dtypes of TensorFlow's collectives. Other dtypes are sent as a wider dtype that holds all their values.
_CARRIED = {tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.int32, tf.int64}
_CARRIED_AS = {
    tf.bool: tf.int32,
    tf.int8: tf.int32,
    tf.uint8: tf.int32,
    tf.int16: tf.int32,
    tf.uint16: tf.int32,
    tf.uint32: tf.int64,
}


@final
@attrs.frozen(eq=False)
class Averaged:
    """The exchange of a training step.

    Attributes:
        pairs: averaged gradients and variables. They become available all at once. If a process stops, none
            becomes available, and an error with the text `STOPPED` is raised.
        stop: runs instead of the step in a process that stops, so that the others stop with it.

    Example:
        ```python
        exchange = average_over_processes(pairs, communicator)
        train_op = optimizer.apply_gradients(exchange.pairs)
        ```
    """

    pairs: list[tuple[tf.Tensor, tf.Variable]]
    stop: tf.Operation


@final
class AverageOverProcesses:
    """Averages the gradients of each objective over all processes: the `exchange` of a `SingleDeviceBuilder`.

    If one op trains several objectives, their exchanges may run concurrently, in any order. Communicators
    that need the same order in all processes (MPI and NCCL) need the ops of `Builder.updates`, run in turn.

    Args:
        communicator: sends the gradients.

    Attributes:
        stops: one op per objective, in order. A process that stops runs the op of the update that the others
            are about to run; all ops, if the others are about to train all objectives at once.
        sum: the function with which builders sum tensors of the model over all processes; see
            `SumOverProcesses`. Each step then begins with the first sum. None for one process.
    """

    def __init__(self, communicator: Communicator) -> None:
        self._communicator = communicator
        self._sums = SumOverProcesses(communicator)
        self.stops: list[tf.Operation] = []
        self.sum: SumOverProcesses | None = self._sums if communicator.size > 1 else None

    def summed(self) -> dict[str, str]:
        """Returns dtype and shape of each tensor that `sum` has summed, by number."""
        return {f"number {number}": what for number, what in enumerate(self._sums.taken)}

    def __call__(self, pairs: Pairs) -> Pairs:
        """Returns averaged gradients and their variables; see `average_over_processes`."""
        averaged = average_over_processes(pairs, self._communicator, self._sums.before(len(self.stops)))
        self.stops.append(averaged.stop if self._sums.stop is None else self._sums.stop)
        return averaged.pairs


def average_over_processes(
    pairs: Pairs, communicator: Communicator, after: Sequence[tf.Operation] = ()
) -> Averaged:
    """Averages gradients over all processes, with one exchange for each dtype if possible.

    Args:
        pairs: gradients and variables of this process. Sparse gradients are made dense, with a warning:
            processes touch different rows.
        communicator: sends the gradients.
        after: ops that the exchange waits for, such as earlier exchanges of the step.

    Raises:
        ConfigError: a layer of the graph needs statistics of all batches of a step, but is not connected with
            the other processes.
    """
    _check_statistics(communicator.size)
    gradients = [_make_dense(gradient, variable) for gradient, variable in pairs]
    # In front, so that it becomes the first element of the first bucket.
    going_on = tf.zeros([1])

    def average_unless_stopped(buckets: list[tf.Tensor]) -> list[tf.Tensor]:
        with tf.control_dependencies(list(after)):
            averages = communicator.all_reduce(buckets)
        with tf.control_dependencies([refuse_if_stopped(averages[0][0])]):
            return [tf.identity(average) for average in averages]

    limit = communicator.bucket_size
    with tf.name_scope("exchange"):
        _, *averages = exchange_packed([going_on, *gradients], average_unless_stopped, limit)
        zeros = [tf.zeros(gradient.shape, gradient.dtype) for gradient in gradients]
        stop = tf.group(*exchange_packed([tf.ones([1]), *zeros], communicator.repeat_all_reduce, limit))
    return Averaged([(average, variable) for average, (_, variable) in zip(averages, pairs)], stop)


def broadcast_variables(variables: Sequence[tf.Variable], communicator: Communicator) -> tf.Operation:
    """Makes an op that sets variables to their values in the chief.

    Raises:
        TypeError: the dtype of a variable cannot be sent.
    """
    with tf.name_scope("broadcast"):
        values = [_read_as_carried(variable) for variable in variables]
        received = exchange_packed(values, communicator.broadcast, communicator.bucket_size)
        if communicator.rank == 0:
            return tf.group(*received)
        return tf.group(
            *(
                tf.assign(variable, tf.cast(value, variable.dtype.base_dtype)).op
                for variable, value in zip(variables, received)
            )
        )


def exchange_packed(
    tensors: Sequence[tf.Tensor],
    exchange: Callable[[list[tf.Tensor]], Sequence[tf.Tensor]],
    limit: int,
) -> list[tf.Tensor]:
    """Sends tensors of static shapes through an exchange of flat tensors.

    Args:
        tensors: at least one tensor.
        exchange: takes and returns flat tensors, one per bucket.
        limit: the number of elements in a bucket.

    Returns:
        Tensors of the same shapes and dtypes, in the same order. They become available all at once.
    """
    shapes, dtypes = [tensor.shape for tensor in tensors], [tensor.dtype for tensor in tensors]
    buckets = Buckets.by_size(shapes, dtypes, limit)
    return buckets.unpack(tf.tuple(list(exchange(buckets.pack(tensors)))))


def _check_statistics(size: int) -> None:
    layers = sorted(set(tf.get_collection(UNSYNCHRONIZED)))
    if layers and size > 1:
        raise ConfigError(
            f"sync_statistics=True of {', '.join(layers)}: each of the {size} processes would normalise with "
            "its own batches only, since its towers are not connected with those of the others. Use a "
            "builder that was made with exchange=processes.gradient_exchange, or remove sync_statistics."
        )


def _make_dense(gradient: Any, variable: tf.Variable) -> tf.Tensor:
    if isinstance(gradient, tf.IndexedSlices):
        _log.warning(
            "The gradient of %s is sparse; it is converted to dense (%s elements) and averaged over "
            "processes.",
            variable.op.name,
            variable.shape.num_elements(),
        )
    # Through the variable's shape: an exchange needs a static shape, which a gradient may have lost.
    return tf.ensure_shape(tf.convert_to_tensor(gradient), variable.shape)


def _read_as_carried(variable: tf.Variable) -> tf.Tensor:
    dtype, value = variable.dtype.base_dtype, variable.read_value()
    if not variable.shape.is_fully_defined():
        raise TypeError(
            f"Variable {variable.op.name!r} has shape {variable.shape}; processes can exchange only "
            "variables of known shapes."
        )
    if dtype in _CARRIED:
        return value
    if dtype not in _CARRIED_AS:
        raise TypeError(
            f"Variable {variable.op.name!r} has dtype {dtype.name}, which processes cannot exchange. "
            "Keep it in tf.GraphKeys.LOCAL_VARIABLES, so that each process has its own."
        )
    return tf.cast(value, _CARRIED_AS[dtype])
