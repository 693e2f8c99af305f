"""`tensorpack.callbacks`, where meanings differ from Towerpack's."""

from __future__ import annotations

from typing import Any

from ..._resolve import resolve
from ._checkpoint_files import MaxSaver, MinSaver, ModelSaver
from ._inference import (
    BinaryClassificationStats,
    ClassificationError,
    DataParallelInferenceRunner,
    Inferencer,
    InferenceRunner,
    InferenceRunnerBase,
    ScalarStats,
)
from ._json_monitors import JSONWriter, MonitorBase, NoOpMonitor, ScalarPrinter, TFEventWriter
from ._old_callback import Callback, CallbackToHook
from ._params import (
    GraphVarParam,
    HumanHyperParamSetter,
    HyperParam,
    HyperParamSetter,
    HyperParamSetterWithFunc,
    ObjAttrParam,
    ScheduledHyperParamSetter,
    StatMonitorParamSetter,
)

__all__ = [
    "DEFAULT_CALLBACKS",
    "DEFAULT_MONITORS",
    "BinaryClassificationStats",
    "Callback",
    "CallbackToHook",
    "ClassificationError",
    "DataParallelInferenceRunner",
    "GraphVarParam",
    "HumanHyperParamSetter",
    "HyperParam",
    "HyperParamSetter",
    "HyperParamSetterWithFunc",
    "InferenceRunner",
    "InferenceRunnerBase",
    "Inferencer",
    "JSONWriter",
    "MaxSaver",
    "MinSaver",
    "ModelSaver",
    "MonitorBase",
    "NoOpMonitor",
    "ObjAttrParam",
    "ScalarPrinter",
    "ScalarStats",
    "ScheduledHyperParamSetter",
    "StatMonitorParamSetter",
    "TFEventWriter",
]


def DEFAULT_CALLBACKS() -> list[Any]:
    """Returns the callbacks that run besides the user's."""
    names = ("MovingAverageSummary", "ProgressBar", "MergeAllSummaries", "RunUpdateOps")
    return [resolve(name)() for name in names]


def DEFAULT_MONITORS() -> list[Any]:
    """Returns the monitors that a training has by default."""
    return [TFEventWriter(), JSONWriter(), ScalarPrinter()]
