"""Specs of a datapoint's components, and checks of datapoints and tensors against them."""

from ._component_specs import check_specs, component_of, with_batch_size
from ._datapoint_check import Component, compile_check
from ._exact_conversion import Array
from ._tensor_check import as_declared, check_component, in_order_of

__all__ = [
    "Array",
    "Component",
    "as_declared",
    "check_component",
    "check_specs",
    "compile_check",
    "component_of",
    "in_order_of",
    "with_batch_size",
]
