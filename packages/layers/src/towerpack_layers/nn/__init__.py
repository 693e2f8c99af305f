"""The layers that this wheel ships, and the costs of their weights."""

from ._activation import BNReLU
from ._fully_connected import FullyConnected
from ._regularize import l1_regularizer, l2_regularizer, regularize_cost, regularize_cost_from_collection
from ._symbolic_functions import batch_flatten, print_stat, psnr, rms
from .convolution import Conv2D
from .normalization import BatchNorm
from .randomness import Dropout, random_normal, random_uniform
from .resampling import AvgPooling, GlobalAvgPooling, MaxPooling

__all__ = [
    "AvgPooling",
    "BNReLU",
    "BatchNorm",
    "Conv2D",
    "Dropout",
    "FullyConnected",
    "GlobalAvgPooling",
    "MaxPooling",
    "batch_flatten",
    "l1_regularizer",
    "l2_regularizer",
    "print_stat",
    "psnr",
    "random_normal",
    "random_uniform",
    "regularize_cost",
    "regularize_cost_from_collection",
    "rms",
]
