"""Crops at random positions and in the centre."""

from __future__ import annotations

from typing import final

import numpy as np

from ... import _argument_checks as arguments
from ..._errors import ArgumentError, ImageError
from .._augmentor import ImageAugmentor
from .._image_checks import Array, shape_pair
from .._transform import Transform

__all__ = ["CenterCrop", "CropTransform", "RandomCrop", "RandomCropRandomShape"]


@final
class CropTransform(Transform):
    """Takes a rectangle out of an image, as a view.

    Args:
        h0: first row.
        w0: first column.
        h: number of rows.
        w: number of columns.

    Raises:
        ArgumentError: a number is negative, or the rectangle is empty.

    Example:
        >>> CropTransform(1, 0, 1, 2).apply_image(np.array([[1, 2, 3], [4, 5, 6]]))
        array([[4, 5]])
    """

    def __init__(self, h0: int, w0: int, h: int, w: int) -> None:
        """Stores the rectangle."""
        if min(h0, w0) < 0 or min(h, w) < 1:
            raise ArgumentError(
                f"a crop starts at 0 or later and has a row and a column; received {(h0, w0, h, w)}"
            )
        self.h0, self.w0, self.h, self.w = h0, w0, h, w

    def apply_image(self, img: Array) -> Array:
        """Returns the rectangle.

        Raises:
            ImageError: the rectangle exceeds the image.
        """
        if img.shape[0] < self.h0 + self.h or img.shape[1] < self.w0 + self.w:
            raise ImageError(f"{self!r}: the image has shape {img.shape}, so that the rectangle lies outside")
        part: Array = img[self.h0 : self.h0 + self.h, self.w0 : self.w0 + self.w]
        return part

    def apply_coords(self, coords: Array) -> Array:
        """Returns coordinates relative to the corner of the rectangle."""
        shifted = coords - np.array([self.w0, self.h0], np.float64)
        return shifted.astype(coords.dtype, copy=False)

    def apply_mask(self, mask: Array) -> Array:
        """Returns the rectangle of the mask."""
        return self.apply_image(mask)


class _CropOfShape(ImageAugmentor):
    """Crops a part of a given shape; subclasses choose the position in rows and columns."""

    def __init__(self, crop_shape: int | tuple[int, int]) -> None:
        """Stores the shape."""
        self.crop_shape = shape_pair("crop_shape", crop_shape)

    def get_transform(self, img: Array) -> Transform:
        """Returns the crop.

        Raises:
            ImageError: the image is smaller than the shape.
        """
        top, left = map(self._begin, _spare(self, img, self.crop_shape))
        return CropTransform(top, left, *self.crop_shape)

    def _begin(self, spare: int) -> int:
        """Returns the number of the spare pixels before the crop."""
        raise NotImplementedError


@final
class RandomCrop(_CropOfShape):
    """Crops a part of a given shape at a random position.

    Args:
        crop_shape: (height, width), or one number for both.

    Raises:
        ArgumentError: `crop_shape` has another form.
    """

    def _begin(self, spare: int) -> int:
        return int(self.rng.randint(spare + 1))


@final
class CenterCrop(_CropOfShape):
    """Crops the centre in a given shape; of two possible centres, the upper and left one.

    Args:
        crop_shape: (height, width), or one number for both.

    Raises:
        ArgumentError: `crop_shape` has another form.
    """

    def _begin(self, spare: int) -> int:
        return spare // 2


@final
class RandomCropRandomShape(ImageAugmentor):
    """Crops a part of a random shape at a random position.

    Args:
        wmin: smallest width.
        hmin: smallest height.
        wmax: largest width; by default, the width of the image.
        hmax: largest height; by default, the height of the image.

    Raises:
        ArgumentError: a size is not an integer from 1 up, or a maximum is below its minimum.
    """

    def __init__(self, wmin: int, hmin: int, wmax: int | None = None, hmax: int | None = None) -> None:
        """Stores the bounds, which are inclusive."""
        self.wmin, self.hmin = arguments.count("wmin", wmin), arguments.count("hmin", hmin)
        self.wmax = None if wmax is None else arguments.count("wmax", wmax, least=self.wmin)
        self.hmax = None if hmax is None else arguments.count("hmax", hmax, least=self.hmin)

    def get_transform(self, img: Array) -> Transform:
        """Returns the crop.

        Raises:
            ImageError: the image is smaller than the largest possible shape.
        """
        bounds = (self.hmax or img.shape[0], self.wmax or img.shape[1])
        _spare(self, img, (max(bounds[0], self.hmin), max(bounds[1], self.wmin)))
        height = int(self.rng.randint(self.hmin, bounds[0] + 1))
        width = int(self.rng.randint(self.wmin, bounds[1] + 1))
        top = int(self.rng.randint(img.shape[0] - height + 1))
        return CropTransform(top, int(self.rng.randint(img.shape[1] - width + 1)), height, width)


def _spare(where: ImageAugmentor, img: Array, shape: tuple[int, int]) -> tuple[int, int]:
    """Returns the number of rows and columns by which the image exceeds `shape`."""
    if img.shape[0] < shape[0] or img.shape[1] < shape[1]:
        raise ImageError(
            f"{where!r}: the image has shape {img.shape} and is smaller than {shape}; resize it first, "
            "with ResizeShortestEdge for example"
        )
    return img.shape[0] - shape[0], img.shape[1] - shape[1]
