"""Measures the speed of flows: time per flow, and the benefit of workers."""

from ._bottleneck import Diagnosis, SpeedResult, Stage, measured_stages, stage_timers
from ._data_speed import TestDataSpeed, process_tree, processor_seconds, proportional_memory

__all__ = [
    "Diagnosis",
    "SpeedResult",
    "Stage",
    "TestDataSpeed",
    "measured_stages",
    "process_tree",
    "processor_seconds",
    "proportional_memory",
    "stage_timers",
]
