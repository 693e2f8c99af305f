"""Reports on a running training: the bottleneck, stalls, and the environment."""

from ._environment import collect_env_info
from ._explain_step import explain_step
from ._input_overhead import InputOverhead, StepOnHeldBatch
from ._input_report import Bottleneck, BottleneckReport, InputReport, judge_epoch, sampling_period
from ._record_run import record_run
from ._stall_warning import StallWatch, describe_stall

__all__ = [
    "Bottleneck",
    "BottleneckReport",
    "InputOverhead",
    "InputReport",
    "StallWatch",
    "StepOnHeldBatch",
    "collect_env_info",
    "describe_stall",
    "explain_step",
    "judge_epoch",
    "record_run",
    "sampling_period",
]
