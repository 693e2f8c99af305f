"""Parts of images: cut out, cut away, or resized."""

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
