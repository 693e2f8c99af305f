"""The layers that this wheel ships, and the costs of their weights."""

from ._activation import BNReLU
from ._batch_norm import BatchNorm
from ._conv import Conv2D
from ._dropout import Dropout
from ._fully_connected import FullyConnected
from ._pooling import AvgPooling, GlobalAvgPooling, MaxPooling
from ._regularize import l1_regularizer, l2_regularizer, regularize_cost, regularize_cost_from_collection

__all__ = [
    "AvgPooling",
    "BNReLU",
    "BatchNorm",
    "Conv2D",
    "Dropout",
    "FullyConnected",
    "GlobalAvgPooling",
    "MaxPooling",
    "l1_regularizer",
    "l2_regularizer",
    "regularize_cost",
    "regularize_cost_from_collection",
]
