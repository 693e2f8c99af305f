"""The layers that this wheel ships, and the costs of their weights."""

# The root lists the same names: pylint: disable=duplicate-code

from ._activation import BNReLU, Maxout, PReLU, SoftMax
from ._concat import ConcatWith
from ._embedding import Embedding
from ._fully_connected import FullyConnected
from ._regularize import l1_regularizer, l2_regularizer, regularize_cost, regularize_cost_from_collection
from ._symbolic_functions import batch_flatten, print_stat, psnr, rms
from .convolution import Conv1D, Conv2D, Conv2DTranspose, Deconv2D, DepthwiseConv2D, SeparableConv2D
from .normalization import BatchNorm, BatchRenorm, GroupNorm, InstanceNorm, LayerNorm
from .randomness import Dropout, SpatialDropout, random_normal, random_uniform
from .resampling import AvgPooling, FixedUnPooling, GlobalAvgPooling, ImageSample, MaxPooling

__all__ = [
    "AvgPooling",
    "BNReLU",
    "BatchNorm",
    "BatchRenorm",
    "ConcatWith",
    "Conv1D",
    "Conv2D",
    "Conv2DTranspose",
    "Deconv2D",
    "DepthwiseConv2D",
    "Dropout",
    "Embedding",
    "FixedUnPooling",
    "FullyConnected",
    "GlobalAvgPooling",
    "GroupNorm",
    "ImageSample",
    "InstanceNorm",
    "LayerNorm",
    "MaxPooling",
    "Maxout",
    "PReLU",
    "SeparableConv2D",
    "SoftMax",
    "SpatialDropout",
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
