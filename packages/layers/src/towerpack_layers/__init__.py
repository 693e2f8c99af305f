"""Symbolic layers for graph-mode TensorFlow: `argscope`, `LinearWrap` and the tower context.

Everything here adds ops to the current `tf.Graph` and writes to TensorFlow's own collections, so it mixes
with any other function library that does the same.
"""

from towerpack_layers._errors import (
    DuplicateLayerError,
    DuplicateRegistrationError,
    GraphRequiredError,
    LayerArgumentError,
    LayerNameError,
    LayersError,
    NotALayerError,
    SharedVariableError,
    TowerError,
    TowerNameError,
    UnknownLayerError,
)
from towerpack_layers.nn._activation import BNReLU
from towerpack_layers.nn._batch_norm import BatchNorm
from towerpack_layers.nn._conv import Conv2D
from towerpack_layers.nn._dropout import Dropout
from towerpack_layers.nn._fully_connected import FullyConnected
from towerpack_layers.nn._pooling import AvgPooling, GlobalAvgPooling, MaxPooling
from towerpack_layers.nn._regularize import (
    l1_regularizer,
    l2_regularizer,
    regularize_cost,
    regularize_cost_from_collection,
)
from towerpack_layers.registry._argscope import argscope, get_arg_scope
from towerpack_layers.registry._layer_variables import VariableHolder
from towerpack_layers.registry._linearwrap import LinearWrap
from towerpack_layers.registry._register_layer import get_registered_layer, register_layer
from towerpack_layers.tower._tower_context import TowerContext, get_current_tower_context

__all__ = [
    "AvgPooling",
    "BNReLU",
    "BatchNorm",
    "Conv2D",
    "Dropout",
    "DuplicateLayerError",
    "DuplicateRegistrationError",
    "FullyConnected",
    "GlobalAvgPooling",
    "GraphRequiredError",
    "LayerArgumentError",
    "LayerNameError",
    "LayersError",
    "LinearWrap",
    "MaxPooling",
    "NotALayerError",
    "SharedVariableError",
    "TowerContext",
    "TowerError",
    "TowerNameError",
    "UnknownLayerError",
    "VariableHolder",
    "argscope",
    "get_arg_scope",
    "get_current_tower_context",
    "get_registered_layer",
    "l1_regularizer",
    "l2_regularizer",
    "register_layer",
    "regularize_cost",
    "regularize_cost_from_collection",
]
