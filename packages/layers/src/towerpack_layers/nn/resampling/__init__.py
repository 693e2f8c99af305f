"""Layers that give their input another height and width."""

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
