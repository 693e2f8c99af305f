"""Layers that change the height and width of their input."""

from ._image_sample import ImageSample
from ._pooling import AvgPooling, GlobalAvgPooling, MaxPooling
from ._unpooling import FixedUnPooling

__all__ = [
    "AvgPooling",
    "FixedUnPooling",
    "GlobalAvgPooling",
    "ImageSample",
    "MaxPooling",
]
