"""Flows run by worker processes; see the README beside this file."""

from ._info import WorkerInfo, get_worker_info
from ._map import MultiProcessMapAndBatchData, MultiProcessMapData
from ._runner import MultiProcessRunner

__all__ = [
    "MultiProcessMapAndBatchData",
    "MultiProcessMapData",
    "MultiProcessRunner",
    "WorkerInfo",
    "get_worker_info",
]
