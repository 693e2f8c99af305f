"""Flows run by worker processes and threads; see the README beside this file."""

from ._multi_process_runner import MultiProcessRunner
from ._parallel_map import MultiProcessMapData
from ._parallel_map_and_batch import MultiProcessMapAndBatchData
from ._thread_runner import MultiThreadMapData, MultiThreadRunner
from .worker._worker_info import WorkerInfo, get_worker_info

__all__ = [
    "MultiProcessMapAndBatchData",
    "MultiProcessMapData",
    "MultiProcessRunner",
    "MultiThreadMapData",
    "MultiThreadRunner",
    "WorkerInfo",
    "get_worker_info",
]
