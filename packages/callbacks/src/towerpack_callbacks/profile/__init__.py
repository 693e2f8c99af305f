"""Callbacks that measure the time, the memory and the devices of a training."""

from ._chrome_trace import chrome_trace
from ._gpu_trackers import GPUMemoryTracker, GPUUtilizationTracker
from ._graph_profiler import GraphProfiler
from ._host_memory import HostMemoryTracker
from ._tensorboard_profiler import TensorBoardProfiler
from ._throughput import ThroughputTracker
from ._time_left import EstimatedTimeLeft

__all__ = [
    "EstimatedTimeLeft",
    "GPUMemoryTracker",
    "GPUUtilizationTracker",
    "GraphProfiler",
    "HostMemoryTracker",
    "TensorBoardProfiler",
    "ThroughputTracker",
    "chrome_trace",
]
