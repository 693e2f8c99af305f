"""Specs of a datapoint's components, and checks of datapoints and tensors against them."""

from ._component_specs import (
    as_declared,
    check_component,
    check_specs,
    component_of,
    in_order_of,
    with_batch_size,
)
from ._datapoint_check import Array, Component, compile_check

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
