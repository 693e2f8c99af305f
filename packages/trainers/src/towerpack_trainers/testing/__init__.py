"""The conformance kit: the checks of this package's own trainers, and small models and data, for yours."""

from ._check_trainer import check_trainer
from ._small_training import ConformanceError, FailAt, FinalVariables, Recorder, SmallFlow, SmallModel

__all__ = [
    "ConformanceError",
    "FailAt",
    "FinalVariables",
    "Recorder",
    "SmallFlow",
    "SmallModel",
    "check_trainer",
]
