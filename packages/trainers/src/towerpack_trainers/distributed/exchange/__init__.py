"""The exchange of tensors between processes: averaged gradients, broadcast variables, and communicators."""

from ._average_over_processes import (
    STOPPED,
    Averaged,
    AverageOverProcesses,
    SumOverProcesses,
    average_over_processes,
    broadcast_variables,
    exchange_packed,
)
from ._collective import CollectiveCommunicator
from ._communicator import Communicator, RecycledArrays
from ._mpi import MPICommunicator, MPIExchange

__all__ = [
    "STOPPED",
    "AverageOverProcesses",
    "Averaged",
    "CollectiveCommunicator",
    "Communicator",
    "MPICommunicator",
    "MPIExchange",
    "RecycledArrays",
    "SumOverProcesses",
    "average_over_processes",
    "broadcast_variables",
    "exchange_packed",
]
