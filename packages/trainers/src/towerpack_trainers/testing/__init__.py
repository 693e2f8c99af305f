"""The conformance kit: what this package holds its own trainers to, and small things to train, for yours."""

from ._check_trainer import check_trainer
from ._expectations import ConformanceError
from ._recording_callbacks import FailAt, FinalVariables, Recorder
from ._small_training import SmallFlow, SmallModel

__all__ = [
    "ConformanceError",
    "FailAt",
    "FinalVariables",
    "Recorder",
    "SmallFlow",
    "SmallModel",
    "check_trainer",
]
