"""Exchange by MPI, through mpi4py: for clusters whose network MPI knows best."""

from __future__ import annotations

import atexit
import time
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
import tensorflow.compat.v1 as tf

from ._communicator import Communicator
from ._errors import MissingExtraError
from ._group import ProcessGroup, check_times
from ._recycled import RecycledArrays
from ._rendezvous import Lines, call_chief, receive_calls

__all__ = ["MPICommunicator"]

# Waiting costs a core, as in MPI itself; after this long there is something to wait for.
_SPIN_SECONDS = 0.005


@final
class MPICommunicator(Communicator):
    """MPI's own exchange, on fused buffers in main memory, one after the other.

    Signs of life go over TCP connections of our own, since MPI waits for ever for a process that hangs.

    Args:
        comm: an `mpi4py.MPI.Comm`, of which a duplicate is used; None: `MPI.COMM_WORLD`.
        start_timeout: seconds to wait for all processes.
        peer_timeout: seconds of silence after which one counts as lost.
        step_timeout: seconds that one exchange may take, including the wait for the slowest process.

    Raises:
        MissingExtraError: mpi4py is not installed.
        RendezvousError: the processes cannot reach one another by TCP.
    """

    def __init__(
        self,
        comm: Any = None,
        start_timeout: float = 600.0,
        peer_timeout: float = 30.0,
        step_timeout: float = 1800.0,
    ) -> None:
        self._mpi = mpi = _import_mpi()
        self._comm = (mpi.COMM_WORLD if comm is None else comm).Dup()
        check_times(start_timeout=start_timeout, peer_timeout=peer_timeout, step_timeout=step_timeout)
        self._pending: list[Any] = []
        self._results = RecycledArrays()
        self.group = _join(mpi, self._comm, start_timeout, peer_timeout, step_timeout)

    def all_reduce(self, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        return self._in_turn(tensors, self._average)

    def again(self, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        # MPI matches exchanges by their order, which is that of the tensors.
        return self._in_turn(tensors, self._average)

    def broadcast(self, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        return self._in_turn(tensors, self._send)

    def close(self, failure: str | None = None) -> None:
        """Leaves the group; after a failure, the process will end by MPI's abort.

        Without that, MPI's own end would wait for a process that is gone.
        """
        if failure is not None and self.size > 1:
            atexit.register(_abort, self._mpi, self._comm)
        super().close(failure)

    def _in_turn(
        self, tensors: Sequence[tf.Tensor], exchange: Callable[[np.ndarray], np.ndarray]
    ) -> list[tf.Tensor]:
        if self.size == 1:
            return [tf.identity(tensor) for tensor in tensors]
        answers: list[tf.Tensor] = []
        for tensor in tensors:
            with tf.control_dependencies(answers[-1:]), tf.device("/cpu:0"):
                answer = self._exchange(tensor, exchange)
                answer.set_shape(tensor.shape)
                answers.append(answer)
        return answers

    def _exchange(self, tensor: tf.Tensor, exchange: Callable[[np.ndarray], np.ndarray]) -> tf.Tensor:
        # MPI knows no half types: these are summed as float32.
        half = tensor.dtype in (tf.float16, tf.bfloat16)
        carried = tf.cast(tensor, tf.float32) if half else tensor
        return tf.cast(tf.numpy_function(exchange, [carried], carried.dtype), tensor.dtype)

    def _average(self, values: np.ndarray) -> np.ndarray:
        total = self._results.like(values)
        self._wait(self._comm.Iallreduce(values, total), values, total)
        total *= 1 / self.size
        return total

    def _send(self, values: np.ndarray) -> np.ndarray:
        values = np.array(values)
        self._wait(self._comm.Ibcast(values, root=0), values)
        return values

    def _wait(self, request: Any, *buffers: np.ndarray) -> None:
        """Waits for an exchange, and gives it up when a process is lost."""
        start = time.perf_counter()
        while not request.Test():
            waited = time.perf_counter() - start
            if waited > _SPIN_SECONDS:
                try:
                    self.group.check()
                except BaseException:
                    # MPI may still write to them.
                    self._pending += [request, buffers]
                    raise
                time.sleep(5e-5)


def _import_mpi() -> Any:
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
        return ProcessGroup(0, names, Lines({}, {}), peer_timeout, step_timeout)
    key = f"mpi of {size}"
    if rank == 0:

        def tell(port: int) -> None:
            comm.bcast(port)

        lines = receive_calls(0, names, key, start_timeout, ready=tell)
    else:
        port = comm.bcast(None)
        local = ["127.0.0.1"] if hosts[rank] == hosts[0] else []
        lines = call_chief([*local, hosts[0]], port, rank, names, key, start_timeout)
    return ProcessGroup(rank, names, lines, peer_timeout, step_timeout)
