"""The layers that this wheel ships, and the costs of their weights."""

# The root lists the same names: pylint: disable=duplicate-code

from ._activation import BNReLU, Maxout, PReLU, SoftMax
from ._batch_norm import BatchNorm, BatchRenorm
from ._conv import Conv1D, Conv2D
from ._conv_transpose import Conv2DTranspose, Deconv2D
from ._depthwise import DepthwiseConv2D, SeparableConv2D
from ._dropout import Dropout, SpatialDropout
from ._embedding import Embedding
from ._example_norms import GroupNorm, InstanceNorm, LayerNorm
from ._fully_connected import FullyConnected
from ._image_sample import ImageSample
from ._pooling import AvgPooling, FixedUnPooling, GlobalAvgPooling, MaxPooling
from ._random_tensors import random_normal, random_uniform
from ._symbolic_functions import (
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
