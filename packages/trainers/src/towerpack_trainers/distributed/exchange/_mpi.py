"""Exchange through MPI, with mpi4py: for clusters with networks that MPI supports best."""

from __future__ import annotations

import atexit
import os
import time
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
import tensorflow.compat.v1 as tf

from ..._errors import MissingExtraError, RendezvousError
from ..cluster import make_token
from ..group import Connections, Handshake, ProcessGroup, call_chief, check_times, receive_calls
from ._communicator import Communicator, RecycledArrays

__all__ = ["WAITING_OPS", "MPICommunicator", "import_mpi"]

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
