"""Exchange through MPI, with mpi4py: for clusters with networks that MPI supports best."""

from __future__ import annotations

import atexit
import functools
import math
import os
import time
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
import tensorflow.compat.v1 as tf

from ..._errors import MissingExtraError, RendezvousError
from ..cluster._cluster import make_token
from ..group._connection import Handshake
from ..group._process_group import ProcessGroup, check_times
from ..group._rendezvous import Connections, call_chief, receive_calls
from ._communicator import Communicator, RecycledArrays

__all__ = ["WAITING_OPS", "MPICommunicator", "MPIExchange", "import_mpi"]

# The collection of ops that hold a thread of the session while they wait for other processes.
WAITING_OPS = "towerpack/waiting_ops"

# Busy-waiting uses a core, as in MPI itself; after this time, the thread sleeps between polls.
_SPIN_SECONDS = 0.005

_Exchange = Callable[..., list[np.ndarray]]


@final
class MPICommunicator(Communicator):
    """Exchanges tensors with MPI, in one buffer in main memory for all tensors of a dtype.

    Heartbeats use separate TCP connections, since MPI waits for ever for a process that hangs.

    Args:
        comm: an `mpi4py.MPI.Comm`, which is duplicated; None: `MPI.COMM_WORLD`.
        start_timeout: the time to wait for all processes, in seconds.
        peer_timeout: the time without a heartbeat, in seconds, after which a process counts as lost.
        step_timeout: the maximum time of one exchange, in seconds, including the wait for the slowest
            process.

    Raises:
        MissingExtraError: mpi4py is not installed.
        RendezvousError: the processes cannot connect over TCP.

    Example:
        ```python
        MPITrainer(config, comm=MPICommunicator(step_timeout=600)).train()
        ```
    """

    # Large tensors are written into MPI's buffer and read from it directly; joining small ones first costs
    # less than a NumPy call for each.
    bucket_size = 1 << 12

    def __init__(
        self,
        comm: Any = None,
        start_timeout: float = 600.0,
        peer_timeout: float = 30.0,
        step_timeout: float = 1800.0,
    ) -> None:
        self._mpi = mpi = import_mpi()
        self._comm = (mpi.COMM_WORLD if comm is None else comm).Dup()
        check_times(start_timeout=start_timeout, peer_timeout=peer_timeout, step_timeout=step_timeout)
        self._pending: list[Any] = []
        self._results = RecycledArrays()
        self.group = _join(mpi, self._comm, start_timeout, peer_timeout, step_timeout)

    def all_reduce(self, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        return self._at_once(tensors, self._average)

    def repeat_all_reduce(self, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        # MPI matches exchanges by their order, which is the order of the tensors' dtypes.
        return self._at_once(tensors, self._average)

    def broadcast(self, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        return self._at_once(tensors, self._send)

    def prepare(self, config: tf.ConfigProto) -> tf.ConfigProto:
        """Gives the session a thread for each op of an `MPIExchange`, if the options name no number."""
        waiting = len(tf.get_collection(WAITING_OPS))
        if waiting and not config.inter_op_parallelism_threads:
            config.inter_op_parallelism_threads = waiting + (os.cpu_count() or 1)
        return config

    def close(self, failure: str | None = None) -> None:
        """Leaves the group; after a failure, the process will end with MPI's abort.

        Without the abort, MPI's finalization would wait for a process that is gone.
        """
        if failure is not None and self.size > 1:
            atexit.register(_abort, self._mpi, self._comm)
        super().close(failure)

    def _at_once(self, tensors: Sequence[tf.Tensor], exchange: _Exchange) -> list[tf.Tensor]:
        if self.size == 1 or not tensors:
            return [tf.identity(tensor) for tensor in tensors]
        with tf.device("/cpu:0"):
            carried = [_as_mpi_type(tensor) for tensor in tensors]
            answers = tf.numpy_function(exchange, carried, [tensor.dtype for tensor in carried])
            for tensor, answer in zip(tensors, answers):
                answer.set_shape(tensor.shape)
            return [tf.cast(answer, tensor.dtype) for tensor, answer in zip(tensors, answers)]

    def _average(self, *given: np.ndarray) -> list[np.ndarray]:
        averages = list(given)
        for dtype in dict.fromkeys(values.dtype for values in given):
            places = [place for place, values in enumerate(given) if values.dtype == dtype]
            whole, parts = self._results.row([given[place].shape for place in places], dtype)
            for place, part in zip(places, parts):
                # A mean is a sum of scaled values, and these have to be written there in any case.
                averages[place] = np.multiply(given[place], 1 / self.size, out=part)
            self._wait(self._comm.Iallreduce(self._mpi.IN_PLACE, whole), whole)
        return averages

    def _send(self, *given: np.ndarray) -> list[np.ndarray]:
        sent = [np.array(values) for values in given]
        for values in sent:
            self._wait(self._comm.Ibcast(values, root=0), values)
        return sent

    def _wait(self, request: Any, *buffers: np.ndarray) -> None:
        """Waits for an exchange; stops waiting when a process is lost."""
        start = time.perf_counter()
        while not request.Test():
            waited = time.perf_counter() - start
            if waited > _SPIN_SECONDS:
                try:
                    self.group.check()
                except BaseException:
                    # MPI may still write to the buffers.
                    self._pending += [request, buffers]
                    raise
                time.sleep(5e-5)


def _as_mpi_type(tensor: tf.Tensor) -> tf.Tensor:
    # MPI has no half-precision types: these are summed as float32.
    return tf.cast(tensor, tf.float32) if tensor.dtype in (tf.float16, tf.bfloat16) else tensor


def import_mpi() -> Any:
    """Returns the module `mpi4py.MPI`.

    Raises:
        MissingExtraError: mpi4py is not installed.
    """
    try:
        from mpi4py import MPI
    except ImportError as error:
        raise MissingExtraError.of("mpi", error) from error
    return MPI


def _abort(mpi: Any, comm: Any) -> None:
    if not mpi.Is_finalized():
        comm.Abort(1)


def _join(
    mpi: Any, comm: Any, start_timeout: float, peer_timeout: float, step_timeout: float
) -> ProcessGroup:
    rank, size = comm.Get_rank(), comm.Get_size()
    hosts = comm.allgather(mpi.Get_processor_name())
    names = [f"rank {number} ({host})" for number, host in enumerate(hosts)]
    if size == 1:
        return ProcessGroup(0, names, Connections({}, {}), peer_timeout, step_timeout)
    # The token is sent the same way as all other data of MPI.
    handshake = Handshake(names, f"mpi of {size}", comm.bcast(make_token() if rank == 0 else None))
    if rank == 0:
        told: list[int | None] = []

        def tell(port: int | None) -> None:
            told.append(port)
            comm.bcast(port)

        try:
            connections = receive_calls(0, handshake, start_timeout, ready=tell)
        except BaseException:
            if not told:  # otherwise the others wait for ever
                tell(None)
            raise
    else:
        port = comm.bcast(None)
        if port is None:
            raise RendezvousError(f"{names[0]} is not reachable; see its own error.")
        local = ["127.0.0.1"] if hosts[rank] == hosts[0] else []
        connections = call_chief([*local, hosts[0]], port, rank, handshake, start_timeout)
    return ProcessGroup(rank, names, connections, peer_timeout, step_timeout)


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
