"""Measures the speed of flows: time per flow, and the benefit of workers."""

from ._bottleneck import Stage, measured_stages, stage_timers
from ._data_speed import process_tree, proportional_memory

__all__ = ["Stage", "measured_stages", "process_tree", "proportional_memory", "stage_timers"]
