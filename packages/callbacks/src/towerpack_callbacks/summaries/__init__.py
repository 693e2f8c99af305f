"""Callbacks that pass tensors and statistics to monitors, files and commands."""

from ._add_summary import (
    MOVING_SUMMARIES,
    BatchVariance,
    GradientNorm,
    SimpleMovingAverage,
    add_activation_summary,
    add_moving_summary,
    add_param_summary,
    add_tensor_summary,
    is_of_input,
    summary_tag,
)
from ._image_grid import SampleGrid, image_grid
from ._summary_callbacks import (
    DumpTensorAsImage,
    DumpTensors,
    MergeAllSummaries,
    MovingAverageSummary,
    ProcessTensors,
    SendStat,
)

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
    "is_of_input",
    "summary_tag",
]
