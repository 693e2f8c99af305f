"""Crops: cut out, erase or resize parts of images."""

from ._crops import CenterCrop, CropTransform, GoogleNetRandomCropAndResize, RandomCrop, RandomCropRandomShape
from ._cutout import RandomCutout, RandomErasing

__all__ = [
    "CenterCrop",
    "CropTransform",
    "GoogleNetRandomCropAndResize",
    "RandomCrop",
    "RandomCropRandomShape",
    "RandomCutout",
    "RandomErasing",
]
