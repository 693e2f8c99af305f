"""Flows run by worker processes and threads; `README.md` in this folder explains the design."""

from ._multi_process import MultiProcessMapData, MultiProcessRunner
from ._multi_thread import MultiThreadMapData, MultiThreadRunner
from ._parallel_flow import ParallelFlow, flows_read_here
from ._parallel_map_and_batch import MultiProcessMapAndBatchData
from ._suggest_workers import Suggestion, autotune, available_cpus, suggest_workers
from .worker._task_handler import WorkerInfo, get_worker_info

__all__ = [
    "MultiProcessMapAndBatchData",
    "MultiProcessMapData",
    "MultiProcessRunner",
    "MultiThreadMapData",
    "MultiThreadRunner",
    "ParallelFlow",
    "Suggestion",
    "WorkerInfo",
    "autotune",
    "available_cpus",
    "flows_read_here",
    "get_worker_info",
    "suggest_workers",
]
