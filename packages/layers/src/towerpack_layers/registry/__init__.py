"""The registry of layers: names, scopes, default arguments and chains."""

from ._argscope import argscope, get_arg_scope
from ._compute_dtype import compute_dtype
from ._foreign_layers import enable_argscope_for_function, enable_argscope_for_module
from ._layer_logging import disable_layer_logging
from ._layer_scope import check_graph_mode, layer_scope, name_output, repeating_names
from ._layer_variables import VariableHolder, attach_variables
from ._linearwrap import LinearWrap
from ._register_layer import (
    REGISTRY,
    RESERVED,
    LayerRegistry,
    get_registered_layer,
    layer_register,
    register_alias,
    register_layer,
)
from ._scoped_calls import ScopedCall, ScopedCalls, ScopedDefault

__all__ = [
    "REGISTRY",
    "RESERVED",
    "LayerRegistry",
    "LinearWrap",
    "ScopedCall",
    "ScopedCalls",
    "ScopedDefault",
    "VariableHolder",
    "argscope",
    "attach_variables",
    "check_graph_mode",
    "compute_dtype",
    "disable_layer_logging",
    "enable_argscope_for_function",
    "enable_argscope_for_module",
    "get_arg_scope",
    "get_registered_layer",
    "layer_register",
    "layer_scope",
    "name_output",
    "register_alias",
    "register_layer",
    "repeating_names",
]
