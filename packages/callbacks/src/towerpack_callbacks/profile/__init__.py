"""Callbacks that measure the time, the memory and the devices of a training."""

from ._profilers import GraphProfiler, TensorBoardProfiler, chrome_trace
from ._resource_trackers import GPUMemoryTracker, GPUUtilizationTracker, HostMemoryTracker
from ._training_progress import EstimatedTimeLeft, ThroughputTracker

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
