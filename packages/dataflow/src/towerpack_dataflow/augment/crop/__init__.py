"""Crops: cut out, erase or resize parts of images."""

from ._crop_transform import CropTransform
from ._crops import CenterCrop, RandomCrop, RandomCropRandomShape
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
