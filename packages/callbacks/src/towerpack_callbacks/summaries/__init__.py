"""Callbacks that pass tensors and statistics to monitors, files and commands."""

from ._add_summary import (
    MOVING_SUMMARIES,
    add_activation_summary,
    add_moving_summary,
    add_param_summary,
    add_tensor_summary,
    summary_tag,
)
from ._batch_variance import BatchVariance
from ._dump_tensors import DumpTensorAsImage, DumpTensors, ProcessTensors
from ._gradient_norm import GradientNorm
from ._image_grid import image_grid
from ._sample_grid import SampleGrid
from ._send_stat import SendStat
from ._simple_moving_average import SimpleMovingAverage
from ._summary_callbacks import MergeAllSummaries, MovingAverageSummary

__all__ = [
    "MOVING_SUMMARIES",
    "BatchVariance",
    "DumpTensorAsImage",
    "DumpTensors",
    "GradientNorm",
    "MergeAllSummaries",
    "MovingAverageSummary",
    "ProcessTensors",
    "SampleGrid",
    "SendStat",
    "SimpleMovingAverage",
    "add_activation_summary",
    "add_moving_summary",
    "add_param_summary",
    "add_tensor_summary",
    "image_grid",
    "summary_tag",
]
