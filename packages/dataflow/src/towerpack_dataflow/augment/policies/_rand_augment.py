"""RandAugment and TrivialAugment: random operations, with one setting or none."""

from __future__ import annotations

from typing import final

import numpy as np

from ... import _argument_checks as arguments
from ..._errors import ArgumentError, ImageError
from .._augmentor import ImageAugmentor
from .._augmentor_list import LazyTransform
from .._image_checks import Array, colour
from .._transform import Transform, TransformList
from ._operations import OPERATIONS, operation

__all__ = ["RandAugment", "TrivialAugment"]


@final
class RandAugment(ImageAugmentor):
    """Applies random operations, all with the same strength.

    Source: Cubuk et al., "RandAugment: Practical Automated Data Augmentation with a Reduced Search Space"
    (2020). Images are uint8, RGB.

    Args:
        num_ops: number of operations per image.
        magnitude: strength of the operations, from 0 to 30.

    Raises:
        ArgumentError: an argument is outside its range.
    """

    def __init__(self, num_ops: int = 2, magnitude: float = 9) -> None:
        """Stores the settings."""
        self.num_ops = arguments.count("num_ops", num_ops, least=0)
        if not 0 <= magnitude <= 30:
            raise ArgumentError(f"magnitude is from 0 to 30; received {magnitude!r}")
        self.magnitude = magnitude

    def get_transform(self, img: Array) -> Transform:
        """Returns the operations.

        Raises:
            ImageError: the image is not uint8, or not RGB.
        """
        _check(self, img)
        return TransformList([_drawn(self, self.magnitude / 30, False) for _ in range(self.num_ops)])


@final
class TrivialAugment(ImageAugmentor):
    """Applies one random operation with a random strength.

    Source: Müller and Hutter, "TrivialAugment: Tuning-free Yet State-of-the-Art Data Augmentation" (2021),
    with its wide ranges. Images are uint8, RGB.
    """

    def get_transform(self, img: Array) -> Transform:
        """Returns the operation.

        Raises:
            ImageError: the image is not uint8, or not RGB.
        """
        _check(self, img)
        return TransformList([_drawn(self, self.rng.randint(31) / 30, True)])


def _drawn(where: ImageAugmentor, strength: float, wide: bool) -> Transform:
    name = OPERATIONS[where.rng.randint(len(OPERATIONS))]
    sign = 1 if where.rng.uniform() < 0.5 else -1
    return LazyTransform(lambda image: operation(name, image, strength, sign, wide))


def _check(where: ImageAugmentor, img: Array) -> None:
    if colour(where, img).dtype != np.uint8:
        raise ImageError(f"{where!r}: takes uint8 images; received {img.dtype}. Convert them with ToUint8")
