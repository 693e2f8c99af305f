"""Crops: cut out, erase or resize parts of images."""

from ._crops import CenterCrop, CropTransform, RandomCrop, RandomCropRandomShape
from ._cutout import RandomCutout, RandomErasing
from ._resized_crop import GoogleNetRandomCropAndResize

__all__ = [
    "CenterCrop",
    "CropTransform",
    "GoogleNetRandomCropAndResize",
    "RandomCrop",
    "RandomCropRandomShape",
    "RandomCutout",
    "RandomErasing",
]
