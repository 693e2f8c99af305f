"""Hyper-parameters that change during training: their storage and their schedules.

A `HyperParam` holds a value: a variable of the graph, or an attribute of a Python object. A setter is a
callback that sets it. Schedules (`cosine`, `one_cycle`, …) are pure functions of the progress of the
training, from 0 to 1.
"""

from ._function_setter import HyperParamSetterWithFunc
from ._human_setter import HumanHyperParamSetter
from ._hyper_param import GraphVarParam, HyperParam, ObjAttrParam
from ._hyper_param_setter import HyperParamSetter
from ._scheduled_setter import ScheduledHyperParamSetter
from ._statistic_setter import StatMonitorParamSetter
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
