"""Symbolic layers for graph-mode TensorFlow: `argscope`, `LinearWrap` and the tower context.

All functions add ops to the current `tf.Graph` and write to TensorFlow's own collections, so they can be
combined with any library that does the same.
"""

# A public sub-package with a common name; not in __all__, since `import *` could overwrite names of a script.
from . import interop as interop
from ._errors import (
    DuplicateLayerError,
    DuplicateRegistrationError,
    FrozenVariableError,
    GraphRequiredError,
    KerasLayerError,
    LayerArgumentError,
    LayerNameError,
    LayersError,
    NotALayerError,
    ScopeError,
    SharedVariableError,
    TowerError,
    TowerNameError,
    UnknownLayerError,
)
from .arguments import nonempty_batches, shape2d, shape4d
from .nn._activation import BNReLU, Maxout, PReLU, SoftMax
from .nn._batch_norm import BatchNorm, BatchRenorm
from .nn._conv import Conv1D, Conv2D
from .nn._conv_transpose import Conv2DTranspose, Deconv2D
from .nn._depthwise import DepthwiseConv2D, SeparableConv2D
from .nn._dropout import Dropout, SpatialDropout
from .nn._embedding import Embedding
from .nn._example_norms import GroupNorm, InstanceNorm, LayerNorm
from .nn._fully_connected import FullyConnected
from .nn._image_sample import ImageSample
from .nn._pooling import AvgPooling, FixedUnPooling, GlobalAvgPooling, MaxPooling
from .nn._random_tensors import random_normal, random_uniform
from .nn._symbolic_functions import (
    ConcatWith,
    batch_flatten,
    l1_regularizer,
    l2_regularizer,
    print_stat,
    psnr,
    regularize_cost,
    regularize_cost_from_collection,
    rms,
)
from .recurrent._gated_cells import GRUCell, LSTMCell, LSTMState
from .recurrent._rnn import GRU, LSTM, RNN, BidirectionalRNN
from .recurrent._rnn_cell import MultiRNNCell, RNNCell
from .registry._argscope import (
    argscope,
    enable_argscope_for_function,
    enable_argscope_for_module,
    get_arg_scope,
)
from .registry._layer_scope import VariableHolder, disable_layer_logging
from .registry._linearwrap import LinearWrap
from .registry._register_layer import get_registered_layer, layer_register, register_layer
from .scopes._function_scopes import (
    auto_reuse_variable_scope,
    cached_name_scope,
    under_name_scope,
    under_variable_scope,
)
from .scopes._variable_getters import (
    custom_getter_scope,
    freeze_variables,
    mixed_precision,
    remap_variables,
    rename_get_variable,
    rename_tflayer_get_variable,
    spectral_norm_scope,
)
from .tower._tower_context import TowerContext, get_current_tower_context

__all__ = [
    "GRU",
    "LSTM",
    "RNN",
    "AvgPooling",
    "BNReLU",
    "BatchNorm",
    "BatchRenorm",
    "BidirectionalRNN",
    "ConcatWith",
    "Conv1D",
    "Conv2D",
    "Conv2DTranspose",
    "Deconv2D",
    "DepthwiseConv2D",
    "Dropout",
    "DuplicateLayerError",
    "DuplicateRegistrationError",
    "Embedding",
    "FixedUnPooling",
    "FrozenVariableError",
    "FullyConnected",
    "GRUCell",
    "GlobalAvgPooling",
    "GraphRequiredError",
    "GroupNorm",
    "ImageSample",
    "InstanceNorm",
    "KerasLayerError",
    "LSTMCell",
    "LSTMState",
    "LayerArgumentError",
    "LayerNameError",
    "LayerNorm",
    "LayersError",
    "LinearWrap",
    "MaxPooling",
    "Maxout",
    "MultiRNNCell",
    "NotALayerError",
    "PReLU",
    "RNNCell",
    "ScopeError",
    "SeparableConv2D",
    "SharedVariableError",
    "SoftMax",
    "SpatialDropout",
    "TowerContext",
    "TowerError",
    "TowerNameError",
    "UnknownLayerError",
    "VariableHolder",
    "argscope",
    "auto_reuse_variable_scope",
    "batch_flatten",
    "cached_name_scope",
    "custom_getter_scope",
    "disable_layer_logging",
    "enable_argscope_for_function",
    "enable_argscope_for_module",
    "freeze_variables",
    "get_arg_scope",
    "get_current_tower_context",
    "get_registered_layer",
    "l1_regularizer",
    "l2_regularizer",
    "layer_register",
    "mixed_precision",
    "nonempty_batches",
    "print_stat",
    "psnr",
    "random_normal",
    "random_uniform",
    "register_layer",
    "regularize_cost",
    "regularize_cost_from_collection",
    "remap_variables",
    "rename_get_variable",
    "rename_tflayer_get_variable",
    "rms",
    "shape2d",
    "shape4d",
    "spectral_norm_scope",
    "under_name_scope",
    "under_variable_scope",
]
