"""Layers as registered functions: their names, scopes, default arguments and chains."""

from ._argscope import argscope, get_arg_scope
from ._layer_scope import check_graph_mode, layer_scope, name_output
from ._layer_variables import VariableHolder, attach_variables
from ._linearwrap import LinearWrap
from ._register_layer import RESERVED, LayerRegistry, get_registered_layer, register_layer

__all__ = [
    "RESERVED",
    "LayerRegistry",
    "LinearWrap",
    "VariableHolder",
    "argscope",
    "attach_variables",
    "check_graph_mode",
    "get_arg_scope",
    "get_registered_layer",
    "layer_scope",
    "name_output",
    "register_layer",
]
