"""The exchange of tensors between processes: averaged gradients, broadcast variables, and communicators."""

from ._average_over_processes import STOPPED, AverageOverProcesses, SumOverProcesses, exchange_packed
from ._communicator import RecycledArrays

__all__ = ["STOPPED", "AverageOverProcesses", "RecycledArrays", "SumOverProcesses", "exchange_packed"]
