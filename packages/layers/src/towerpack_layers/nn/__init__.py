"""The layers that this wheel ships, and the costs of their weights."""

from ._activation import BNReLU
from ._fully_connected import FullyConnected
from ._regularize import l1_regularizer, l2_regularizer, regularize_cost, regularize_cost_from_collection
from .convolution import Conv2D
from .normalization import BatchNorm, BatchRenorm, GroupNorm, InstanceNorm, LayerNorm
from .randomness import Dropout
from .resampling import AvgPooling, GlobalAvgPooling, MaxPooling

__all__ = [
    "AvgPooling",
    "BNReLU",
    "BatchNorm",
    "BatchRenorm",
    "Conv2D",
    "Dropout",
    "FullyConnected",
    "GlobalAvgPooling",
    "GroupNorm",
    "InstanceNorm",
    "LayerNorm",
    "MaxPooling",
    "l1_regularizer",
    "l2_regularizer",
    "regularize_cost",
    "regularize_cost_from_collection",
]
