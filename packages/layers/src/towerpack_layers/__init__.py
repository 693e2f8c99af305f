"""Symbolic layers for graph-mode TensorFlow: `argscope`, `LinearWrap` and the tower context.

Everything here adds ops to the current `tf.Graph` and writes to TensorFlow's own collections, so it mixes
with any other function library that does the same.
"""

# A public sub-package; not in __all__, as `import *` would put a common word over a script's own names.
from . import interop as interop
from ._errors import (
    DuplicateLayerError,
    DuplicateRegistrationError,
    GraphRequiredError,
    KerasLayerError,
    LayerArgumentError,
    LayerNameError,
    LayersError,
    NotALayerError,
    SharedVariableError,
    TowerError,
    TowerNameError,
    UnknownLayerError,
)
from .nn import (
    AvgPooling,
    BatchNorm,
    BNReLU,
    Conv2D,
    Dropout,
    FullyConnected,
    GlobalAvgPooling,
    MaxPooling,
    l1_regularizer,
    l2_regularizer,
    regularize_cost,
    regularize_cost_from_collection,
)
from .registry import (
    LinearWrap,
    VariableHolder,
    argscope,
    get_arg_scope,
    get_registered_layer,
    register_layer,
)
from .tower import TowerContext, get_current_tower_context

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
    "KerasLayerError",
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
