"""Ops that exchange a program's own tensors over MPI, such as the counts of an evaluation."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
import tensorflow.compat.v1 as tf

from ._mpi import WAITING_OPS, import_mpi

__all__ = ["MPIExchange"]


_POLL_SECONDS = 1e-4


@final
class MPIExchange:
    """Adds ops to a graph that exchange tensors between the processes that `mpiexec` has started.

    All processes must add the same ops in the same order. They may run them in any order. A run waits until
    the op runs in all processes, and holds a thread of the session until then: set
    `inter_op_parallelism_threads` of your own sessions above the number of ops. The ops have gradients.

    Args:
        comm: an `mpi4py.MPI.Comm`; None: `MPI.COMM_WORLD`.

    Attributes:
        rank: the number of this process, from 0.
        size: the number of processes.
        local_rank: the number of this process on its host, from 0.
        local_size: the number of processes on this host.

    Raises:
        MissingExtraError: mpi4py is not installed.

    Example:
        ```python
        processes = MPIExchange()
        wrong = processes.sum(tf.reduce_sum(mistakes)) / processes.sum(tf.size(mistakes))
        ```
    """

    def __init__(self, comm: Any = None) -> None:
        mpi = import_mpi()
        self._comm = mpi.COMM_WORLD if comm is None else comm
        host = self._comm.Split_type(mpi.COMM_TYPE_SHARED)
        self.rank, self.size = int(self._comm.Get_rank()), int(self._comm.Get_size())
        self.local_rank, self.local_size = int(host.Get_rank()), int(host.Get_size())

    def sum(self, tensor: Any) -> tf.Tensor:
        """Returns the sum of a tensor over all processes.

        Args:
            tensor: int32, int64, float32 or float64; of equal shape and dtype in all processes.
        """
        value = tf.convert_to_tensor(tensor)
        return self._exchange(value, _sum, self.sum, value.shape)

    def gather(self, tensor: Any) -> tf.Tensor:
        """Returns the tensors of all processes, concatenated along the first axis by rank.

        Args:
            tensor: of equal dtype and shape in all processes, except for the length of the first axis.
        """
        value = tf.convert_to_tensor(tensor)

        def give_back(gradient: tf.Tensor) -> tf.Tensor:
            length = tf.shape(value)[0]
            start = tf.reduce_sum(self.gather([length])[: self.rank])
            return self.sum(gradient)[start : start + length]

        return self._exchange(value, _gather, give_back, [None, *value.shape[1:]])

    def broadcast(self, tensor: Any, root: int = 0) -> tf.Tensor:
        """Returns the tensor of one process in all processes.

        Args:
            tensor: of equal shape and dtype in all processes.
            root: the process.
        """
        value = tf.convert_to_tensor(tensor)

        def give_back(gradient: tf.Tensor) -> tf.Tensor:
            total = self.sum(gradient)
            if self.rank == root:
                return total
            with tf.control_dependencies([total]):  # the root waits for the sum in all processes
                return tf.zeros_like(gradient)

        return self._exchange(value, functools.partial(_broadcast, root), give_back, value.shape)

    def _exchange(
        self,
        value: tf.Tensor,
        collect: Callable[[Any, np.ndarray], np.ndarray],
        give_back: Callable[[tf.Tensor], tf.Tensor],
        shape: Sequence[Any],
    ) -> tf.Tensor:
        # A communicator for each op: MPI matches exchanges of one communicator by their order.
        run = functools.partial(collect, self._comm.Dup())

        def exchange(given: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
            with tf.device("/cpu:0"):
                received = tf.numpy_function(run, [given], given.dtype)
            tf.add_to_collection(WAITING_OPS, received)
            received.set_shape(shape)
            return received, give_back

        result: tf.Tensor = tf.custom_gradient(exchange)(value)
        return result


def _sum(comm: Any, array: np.ndarray) -> np.ndarray:
    total = np.empty_like(array)
    _wait(comm.Iallreduce(array, total))
    return total


def _gather(comm: Any, array: np.ndarray) -> np.ndarray:
    lengths = np.empty(comm.Get_size(), np.int64)
    _wait(comm.Iallgather(np.array([len(array)]), lengths))
    rows = np.empty((lengths.sum(), *array.shape[1:]), array.dtype)
    _wait(comm.Iallgatherv(array, [rows, lengths * math.prod(array.shape[1:])]))
    return rows


def _broadcast(root: int, comm: Any, array: np.ndarray) -> np.ndarray:
    sent = array.copy()
    _wait(comm.Ibcast(sent, root))
    return sent


def _wait(request: Any) -> None:
    # Blocking calls in several threads can wait for each other for ever.
    while not request.Test():
        time.sleep(_POLL_SECONDS)
