"""The registry of layers: names, scopes, default arguments and chains."""

from ._argscope import (
    ScopedCall,
    ScopedCalls,
    ScopedDefault,
    argscope,
    enable_argscope_for_function,
    enable_argscope_for_module,
    get_arg_scope,
)
from ._layer_info import REQUIRED
from ._layer_scope import (
    VariableHolder,
    attach_variables,
    check_graph_mode,
    compute_dtype,
    disable_layer_logging,
    layer_scope,
    name_output,
    repeating_names,
)
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

__all__ = [
    "REGISTRY",
    "REQUIRED",
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
