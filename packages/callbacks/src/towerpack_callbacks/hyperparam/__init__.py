"""Hyper-parameters that change during training: their storage and their schedules.

A `HyperParam` holds a value: a variable of the graph, or an attribute of a Python object. A setter is a
callback that sets it. Schedules (`cosine`, `one_cycle`, …) are pure functions of the progress of the
training, from 0 to 1.
"""

from ._hyper_param import GraphVarParam, HyperParam, ObjAttrParam
from ._setters import (
    HumanHyperParamSetter,
    HyperParamSetter,
    HyperParamSetterWithFunc,
    ScheduledHyperParamSetter,
    StatMonitorParamSetter,
)
from .schedules import cosine, exponential, one_cycle, over, polynomial, warm_up

__all__ = [
    "GraphVarParam",
    "HumanHyperParamSetter",
    "HyperParam",
    "HyperParamSetter",
    "HyperParamSetterWithFunc",
    "ObjAttrParam",
    "ScheduledHyperParamSetter",
    "StatMonitorParamSetter",
    "cosine",
    "exponential",
    "one_cycle",
    "over",
    "polynomial",
    "warm_up",
]
