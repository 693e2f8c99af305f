"""`tensorpack.dataflow`: lists and flows of augmentors, for images of more dtypes and channels."""

from __future__ import annotations

from typing import Any

from towerpack_dataflow import augment

__all__ = [
    "AugmentImageComponent",
    "AugmentImageComponents",
    "AugmentImageCoordinates",
    "AugmentorList",
    "TransformAugmentorBase",
]

TransformAugmentorBase = augment.ImageAugmentor


class _OpenCVImages:
    """Accepts all images that OpenCV moves, such as label maps; Tensorpack checks no image."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, opencv_images=True, **kwargs)  # type: ignore[call-arg]


class AugmentorList(_OpenCVImages, augment.AugmentorList):  # type: ignore[misc]
    """Applies augmentors in order."""


class AugmentImageComponent(_OpenCVImages, augment.AugmentImageComponent):  # type: ignore[misc]
    """Augments one image of each datapoint."""


class AugmentImageComponents(_OpenCVImages, augment.AugmentImageComponents):
    """Augments components of each datapoint by the same transforms."""


class AugmentImageCoordinates(_OpenCVImages, augment.AugmentImageCoordinates):  # type: ignore[misc]
    """Augments one image of each datapoint, with its coordinates."""
