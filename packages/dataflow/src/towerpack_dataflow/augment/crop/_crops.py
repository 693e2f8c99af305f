"""Crops at random places, and in the middle."""

from __future__ import annotations

from typing import final

from ... import _argument_checks as arguments
from ..._errors import ImageError
from .._augmentor import ImageAugmentor
from .._image_checks import Array, shape_pair
from .._transform import Transform
from ._crop_transform import CropTransform

__all__ = ["CenterCrop", "RandomCrop", "RandomCropRandomShape"]


class _CropOfShape(ImageAugmentor):
    """Cuts a part of a given shape out of the image; subclasses say where, for rows and columns alike."""

    def __init__(self, crop_shape: int | tuple[int, int]) -> None:
        """Keeps the shape."""
        self.crop_shape = shape_pair("crop_shape", crop_shape)

    def get_transform(self, img: Array) -> Transform:
        """Returns the crop.

        Raises:
            ImageError: the image is smaller.
        """
        top, left = map(self._begin, _spare(self, img, self.crop_shape))
        return CropTransform(top, left, *self.crop_shape)

    def _begin(self, spare: int) -> int:
        """Returns how many of the pixels to spare come before the part."""
        raise NotImplementedError


@final
class RandomCrop(_CropOfShape):
    """Cuts a part of a given shape out of the image, at a random place.

    Args:
        crop_shape: (height, width), or one number for both.

    Raises:
        ArgumentError: `crop_shape` is something else.
    """

    def _begin(self, spare: int) -> int:
        return int(self.rng.randint(spare + 1))


@final
class CenterCrop(_CropOfShape):
    """Cuts the middle of a given shape out of the image, of two middles the upper and the left one.

    Args:
        crop_shape: (height, width), or one number for both.

    Raises:
        ArgumentError: `crop_shape` is something else.
    """

    def _begin(self, spare: int) -> int:
        return spare // 2


@final
class RandomCropRandomShape(ImageAugmentor):
    """Cuts a part of a random shape out of the image, at a random place.

    Args:
        wmin: smallest width.
        hmin: smallest height.
        wmax: largest width; if not given, the image's.
        hmax: largest height; if not given, the image's.

    Raises:
        ArgumentError: a size is no integer from 1 up, or a largest is below its smallest.
    """

    def __init__(self, wmin: int, hmin: int, wmax: int | None = None, hmax: int | None = None) -> None:
        """Keeps the bounds, all of which may be drawn."""
        self.wmin, self.hmin = arguments.count("wmin", wmin), arguments.count("hmin", hmin)
        self.wmax = None if wmax is None else arguments.count("wmax", wmax, least=self.wmin)
        self.hmax = None if hmax is None else arguments.count("hmax", hmax, least=self.hmin)

    def get_transform(self, img: Array) -> Transform:
        """Returns the crop.

        Raises:
            ImageError: the image is smaller than a shape that may be drawn.
        """
        bounds = (self.hmax or img.shape[0], self.wmax or img.shape[1])
        _spare(self, img, (max(bounds[0], self.hmin), max(bounds[1], self.wmin)))
        height = int(self.rng.randint(self.hmin, bounds[0] + 1))
        width = int(self.rng.randint(self.wmin, bounds[1] + 1))
        top = int(self.rng.randint(img.shape[0] - height + 1))
        return CropTransform(top, int(self.rng.randint(img.shape[1] - width + 1)), height, width)


def _spare(where: ImageAugmentor, img: Array, shape: tuple[int, int]) -> tuple[int, int]:
    """Returns how many rows and columns the image has more than `shape`."""
    if img.shape[0] < shape[0] or img.shape[1] < shape[1]:
        raise ImageError(
            f"{where!r}: the image has shape {img.shape} and is smaller than {shape}; resize it before, "
            "by ResizeShortestEdge for example"
        )
    return img.shape[0] - shape[0], img.shape[1] - shape[1]
