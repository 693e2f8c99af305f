"""What a trainer reports on a running training: the slower side, and stalls."""

from ._input_report import InputReport, describe_epoch, sampling_period
from ._stall_warning import StallWatch, describe_stall

__all__ = ["InputReport", "StallWatch", "describe_epoch", "describe_stall", "sampling_period"]
