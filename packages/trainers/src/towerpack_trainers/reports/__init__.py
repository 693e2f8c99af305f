"""Reports on a running training: the bottleneck, stalls, and the environment."""

from ._input_overhead import InputOverhead
from ._input_report import Bottleneck, BottleneckReport, describe_stall, judge_epoch, sampling_period

__all__ = [
    "Bottleneck",
    "BottleneckReport",
    "InputOverhead",
    "describe_stall",
    "judge_epoch",
    "sampling_period",
]
