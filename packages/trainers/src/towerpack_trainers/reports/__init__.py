"""Reports on a running training: the bottleneck, stalls, and the environment."""

from ._environment import collect_env_info
from ._explain_step import explain_step
from ._headspace import Headspace, StepOnData
from ._input_report import InputReport, InputVerdict, SlowerSide, judge_epoch, sampling_period
from ._record_run import record_run
from ._stall_warning import StallWatch, describe_stall

__all__ = [
    "Headspace",
    "InputReport",
    "InputVerdict",
    "SlowerSide",
    "StallWatch",
    "StepOnData",
    "collect_env_info",
    "describe_stall",
    "explain_step",
    "judge_epoch",
    "record_run",
    "sampling_period",
]
