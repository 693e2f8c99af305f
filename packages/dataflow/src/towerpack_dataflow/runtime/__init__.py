"""Flows run by worker processes and threads; see the README beside this file."""

from ._info import WorkerInfo, get_worker_info
from ._map import MultiProcessMapData
from ._map_and_batch import MultiProcessMapAndBatchData
from ._runner import MultiProcessRunner
from ._thread_runner import MultiThreadMapData, MultiThreadRunner

__all__ = [
    "MultiProcessMapAndBatchData",
    "MultiProcessMapData",
    "MultiProcessRunner",
    "MultiThreadMapData",
    "MultiThreadRunner",
    "WorkerInfo",
    "get_worker_info",
]
