"""Flows of images: read from files, augmented together with their annotations."""

from ._augment_components import AugmentImageComponent, AugmentImageComponents, AugmentImageCoordinates
from ._image_from_file import ImageFromFile

__all__ = [
    "AugmentImageComponent",
    "AugmentImageComponents",
    "AugmentImageCoordinates",
    "ImageFromFile",
]
