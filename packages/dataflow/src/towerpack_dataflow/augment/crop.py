"""Crops: cut out, erase or resize parts of images, at random positions or in the centre."""

from __future__ import annotations

import math
from typing import Any, final

import numpy as np

from .. import _argument_checks as arguments
from .._errors import ArgumentError, ImageError
from ._augmentor import ImageAugmentor
from ._image_checks import Array, check_fill, fraction, interval, shape_pair
from ._transform import NoOpTransform, PhotometricTransform, Transform, TransformList
from .geometric._resize import ResizeTransform

__all__ = [
    "CenterCrop",
    "CropTransform",
    "GoogleNetRandomCropAndResize",
    "RandomCrop",
    "RandomCropRandomShape",
    "RandomCutout",
    "RandomErasing",
]


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

    Example:
        >>> RandomCrop((2, 3)).augment(np.zeros((8, 8, 3), np.uint8)).shape
        (2, 3, 3)
    """

    read_only = True

    def _begin(self, spare: int) -> int:
        return int(self.rng.randint(spare + 1))


@final
class CenterCrop(_CropOfShape):
    """Crops the centre in a given shape; of two possible centres, the upper and left one.

    Args:
        crop_shape: (height, width), or one number for both.

    Raises:
        ArgumentError: `crop_shape` has another form.

    Example:
        >>> CenterCrop(2).augment(np.arange(16, dtype=np.uint8).reshape(4, 4))
        array([[ 5,  6],
               [ 9, 10]], dtype=uint8)
    """

    read_only = True

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

    Example:
        >>> cropped = RandomCropRandomShape(wmin=3, hmin=2).augment(np.zeros((8, 8), np.uint8))
        >>> 2 <= cropped.shape[0] <= 8, 3 <= cropped.shape[1] <= 8
        (True, True)
    """

    read_only = True

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


_TRIES = 10


@final
class GoogleNetRandomCropAndResize(ImageAugmentor):
    """Crops a part of random size and aspect and resizes it.

    If ten attempts find no such part inside the image, the shorter edge is resized to the target and the
    centre is cropped. Source: Szegedy et al., "Going Deeper with Convolutions" (2015), section 6, as in
    fb.resnet.torch.

    Args:
        crop_area_fraction: bounds of the area of the crop, as a share of the image's area.
        aspect_ratio_range: bounds of the ratio of width to height; inverted in half of the cases.
        target_shape: height and width of the result, in pixels; one number, or two.
        interp: interpolation, a constant of OpenCV; linear by default.

    Raises:
        ArgumentError: a pair of bounds or the shape is invalid.

    Example:
        >>> image = np.zeros((60, 80, 3), np.uint8)
        >>> GoogleNetRandomCropAndResize(target_shape=32).augment(image).shape
        (32, 32, 3)
    """

    read_only = True

    def __init__(
        self,
        crop_area_fraction: tuple[float, float] = (0.08, 1.0),
        aspect_ratio_range: tuple[float, float] = (0.75, 1.333),
        target_shape: int | tuple[int, int] = 224,
        interp: int = 1,
    ) -> None:
        """Stores the bounds."""
        self.crop_area_fraction = interval("crop_area_fraction", crop_area_fraction, 0, 1)
        self.aspect_ratio_range = interval("aspect_ratio_range", aspect_ratio_range, 1e-3, 1e3)
        self.target_shape = shape_pair("target_shape", target_shape)
        self.interp = interp

    def get_transform(self, img: Array) -> Transform:
        """Returns a crop and a resize."""
        height, width = img.shape[:2]
        for _ in range(_TRIES):
            area = self.rng.uniform(*self.crop_area_fraction) * height * width
            aspect = self.rng.uniform(*self.aspect_ratio_range)
            w, h = int(math.sqrt(area * aspect) + 0.5), int(math.sqrt(area / aspect) + 0.5)
            if self.rng.uniform() < 0.5:
                w, h = h, w
            if 0 < h <= height and 0 < w <= width:
                x, y = int(self.rng.randint(width - w + 1)), int(self.rng.randint(height - h + 1))
                return TransformList(
                    [CropTransform(y, x, h, w), ResizeTransform(h, w, *self.target_shape, self.interp)]
                )
        return self._middle(height, width)

    def _middle(self, height: int, width: int) -> Transform:
        target_h, target_w = self.target_shape
        scale = max(target_h / height, target_w / width)
        h, w = max(target_h, int(height * scale + 0.5)), max(target_w, int(width * scale + 0.5))
        crop = CropTransform((h - target_h) // 2, (w - target_w) // 2, target_h, target_w)
        return TransformList([ResizeTransform(height, width, h, w, self.interp), crop])


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

    Example:
        >>> erased = RandomCutout(2, 3).augment(np.ones((8, 8), np.uint8))
        >>> int((erased == 0).sum()) <= 6
        True
    """

    read_only = True

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

    Example:
        >>> erased = RandomErasing(prob=1, fill=0).augment(np.ones((100, 100), np.uint8))
        >>> bool(0.01 < (erased == 0).mean() < 0.41)
        True
    """

    read_only = True

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
