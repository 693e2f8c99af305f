"""Values that change while training: what they are, and when they change.

A `HyperParam` is a place for a value: a variable of the graph, or an attribute of a Python object. A setter
is a callback that decides its value. Schedules (`cosine`, `one_cycle`, …) are pure functions of the progress
of the training, from 0 to 1.
"""

from ._func import HyperParamSetterWithFunc
from ._human import HumanHyperParamSetter
from ._param import GraphVarParam, HyperParam, ObjAttrParam
from ._scheduled import ScheduledHyperParamSetter
from ._setter import HyperParamSetter
from ._stat import StatMonitorParamSetter
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
