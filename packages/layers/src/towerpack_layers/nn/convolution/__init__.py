"""Layers that slide kernels over their input."""

from ._conv import Conv2D
from ._conv_1d import Conv1D
from ._conv_transpose import Conv2DTranspose, Deconv2D
from ._depthwise import DepthwiseConv2D
from ._separable import SeparableConv2D

__all__ = [
    "Conv1D",
    "Conv2D",
    "Conv2DTranspose",
    "Deconv2D",
    "DepthwiseConv2D",
    "SeparableConv2D",
]
