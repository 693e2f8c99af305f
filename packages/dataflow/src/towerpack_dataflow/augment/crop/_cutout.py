"""Replacement of a rectangle of an image by one value or by noise."""

from __future__ import annotations

import math
from typing import Any, final

import numpy as np

from ... import _argument_checks as arguments
from ..._errors import ImageError
from .._augmentor import ImageAugmentor
from .._image_checks import Array, check_fill, fraction, interval
from .._transform import NoOpTransform, PhotometricTransform, Transform

__all__ = ["RandomCutout", "RandomErasing"]

_TRIES = 10


@final
class RandomCutout(ImageAugmentor):
    """Replaces a rectangle at a random position by one value.

    Source: DeVries and Taylor, "Improved Regularization of Convolutional Neural Networks with Cutout" (2017).

    Args:
        h_range: height of the rectangle, or (lowest, highest), both included.
        w_range: width of the rectangle, in the same form.
        fill: the value, or one per channel, from 0 to 255.

    Raises:
        ArgumentError: a range is neither an integer nor a pair of integers.
    """

    def __init__(
        self, h_range: int | tuple[int, int], w_range: int | tuple[int, int], fill: float | list[float] = 0.0
    ) -> None:
        """Stores the ranges."""
        self.h_range, self.w_range = _sizes("h_range", h_range), _sizes("w_range", w_range)
        self.fill = fill

    def get_transform(self, img: Array) -> Transform:
        """Returns the replacement.

        Raises:
            ImageError: the image is smaller than the rectangle.
        """
        h = int(self.rng.randint(self.h_range[0], self.h_range[1] + 1))
        w = int(self.rng.randint(self.w_range[0], self.w_range[1] + 1))
        if h > img.shape[0] or w > img.shape[1]:
            raise ImageError(f"{self!r}: the image has shape {img.shape}, and the rectangle has {h, w}")
        x, y = int(self.rng.randint(img.shape[1] - w + 1)), int(self.rng.randint(img.shape[0] - h + 1))
        return PhotometricTransform(lambda image: _replaced(self, image, y, x, (h, w), self.fill), self)


@final
class RandomErasing(ImageAugmentor):
    """Replaces a rectangle of random size, aspect and position by noise, in a share of the images.

    Source: Zhong et al., "Random Erasing Data Augmentation" (2020), with its defaults.

    Args:
        prob: share of the images in which a rectangle is replaced.
        area: bounds of the rectangle's area, as a share of the image's area.
        aspect: bounds of the ratio of height to width, drawn on a logarithmic scale.
        fill: a value from 0 to 255 instead of noise, or one per channel.

    Raises:
        ArgumentError: an argument is outside its range.
    """

    def __init__(
        self,
        prob: float = 0.5,
        area: tuple[float, float] = (0.02, 0.4),
        aspect: tuple[float, float] = (0.3, 1 / 0.3),
        fill: float | list[float] | None = None,
    ) -> None:
        """Stores the bounds."""
        self.prob = fraction("prob", prob)
        self.area = interval("area", area, 0, 1)
        self.aspect = interval("aspect", aspect, 1e-3, 1e3)
        self.fill = fill

    def get_transform(self, img: Array) -> Transform:
        """Returns the replacement; an identity after ten rectangles that do not fit into the image."""
        if self.rng.uniform() >= self.prob:
            return NoOpTransform()
        height, width = img.shape[:2]
        place = self._place(height, width)
        if place is None:
            return NoOpTransform()
        y, x, h, w = place
        noise = self.rng.randint(0, 256, (h, w, *img.shape[2:])) if self.fill is None else self.fill
        return PhotometricTransform(lambda image: _replaced(self, image, y, x, (h, w), noise), self)

    def _place(self, height: int, width: int) -> tuple[int, int, int, int] | None:
        for _ in range(_TRIES):
            size = self.rng.uniform(*self.area) * height * width
            aspect = math.exp(self.rng.uniform(math.log(self.aspect[0]), math.log(self.aspect[1])))
            h, w = int(math.sqrt(size * aspect) + 0.5), int(math.sqrt(size / aspect) + 0.5)
            if 0 < h < height and 0 < w < width:
                return int(self.rng.randint(height - h + 1)), int(self.rng.randint(width - w + 1)), h, w
        return None


def _replaced(where: object, image: Array, y: int, x: int, shape: tuple[int, int], values: Any) -> Array:
    check_fill(where, "fill", values, image)
    result = image.copy()
    result[y : y + shape[0], x : x + shape[1]] = np.asarray(values)
    return result


def _sizes(name: str, value: Any) -> tuple[int, int]:
    low, high = interval(name, value if isinstance(value, (tuple, list)) else (value, value))
    return arguments.count(name, low), arguments.count(name, high)
