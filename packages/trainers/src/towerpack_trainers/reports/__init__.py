"""Reports on a running training: the bottleneck, stalls, and the environment."""

from ._describe_training import collect_env_info, record_run
from ._input_overhead import InputOverhead, StepOnHeldBatch
from ._input_report import (
    Bottleneck,
    BottleneckReport,
    InputReport,
    StallWatch,
    describe_stall,
    explain_step,
    judge_epoch,
    sampling_period,
)

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
