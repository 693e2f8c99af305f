"""`horovod.tensorflow` over MPI, for the processes that `mpiexec` starts.

For example, `mpiexec -n 2 python -m towerpack_compat run train.py` starts two.
"""

from __future__ import annotations

import functools
import logging
import os
import types
from typing import Any, NoReturn

import tensorflow.compat.v1 as tf

from towerpack_trainers.distributed import MPIExchange

from ._errors import NoCounterpartError, page

__all__ = ["allgather", "allreduce", "broadcast", "init", "local_rank", "local_size", "rank", "size"]

# Launchers of MPI set variables with these names in the processes that they start.
_OF_LAUNCHERS = ("OMPI_COMM_WORLD_", "PMI_", "PMIX_", "SLURM_PROCID")


@functools.cache
def _processes() -> Any:
    try:
        return MPIExchange()
    except (ImportError, RuntimeError) as error:  # mpi4py, or the library of MPI, is not installed
        if any(name.startswith(_OF_LAUNCHERS) for name in os.environ):
            raise
        logging.getLogger("towerpack_compat").warning("Horovod: this process trains alone: %s", error)
    same = {name: lambda tensor, *_: tf.convert_to_tensor(tensor) for name in ("sum", "gather", "broadcast")}
    return types.SimpleNamespace(rank=0, size=1, local_rank=0, local_size=1, **same)


def init() -> None:
    """Joins the processes that `mpiexec` has started."""
    _processes()


def size() -> int:
    """Returns the number of processes."""
    return _processes().size


def rank() -> int:
    """Returns the number of this process, from 0."""
    return _processes().rank


def local_size() -> int:
    """Returns the number of processes on this host."""
    return _processes().local_size


def local_rank() -> int:
    """Returns the number of this process on its host, from 0."""
    return _processes().local_rank


def allreduce(tensor: Any, average: bool = True, name: str | None = None) -> tf.Tensor:
    """Returns the mean of a tensor over all processes, or the sum."""
    total = _processes().sum(tensor)
    return tf.div(total, tf.cast(size(), total.dtype), name) if average else tf.identity(total, name)


def allgather(tensor: Any, name: str | None = None) -> tf.Tensor:
    """Returns the tensors of all processes, concatenated by rank."""
    return tf.identity(_processes().gather(tensor), name)


def broadcast(tensor: Any, root_rank: int, name: str | None = None) -> tf.Tensor:
    """Returns the tensor of one process in all processes."""
    return tf.identity(_processes().broadcast(tensor, root_rank), name)


def __getattr__(name: str) -> NoReturn:
    if name.startswith("__"):
        raise AttributeError(name)
    raise NoCounterpartError(
        f"horovod.tensorflow.{name} has no counterpart. Train with HorovodTrainer, and use only "
        f"{', '.join(__all__)}: {page('#training-over-processes')}."
    )
