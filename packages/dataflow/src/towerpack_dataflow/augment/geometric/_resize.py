"""Augmentors that resize images."""

from __future__ import annotations

import logging
from typing import Any, final

import numpy as np

from ... import _argument_checks as arguments
from ..._errors import ArgumentError, ImageError
from .._augmentor import ImageAugmentor
from .._image_checks import Array, by_opencv, interval, opencv, shape_pair
from .._transform import Transform

__all__ = ["AntialiasedResize", "RandomResize", "Resize", "ResizeShortestEdge", "ResizeTransform"]


@final
class ResizeTransform(Transform):
    """Resizes images from one height and width to another.

    Args:
        h: original height.
        w: original width.
        new_h: new height.
        new_w: new width.
        interp: interpolation, a constant of OpenCV; linear by default. Masks use the nearest pixel.

    Raises:
        ArgumentError: a size is below 1.

    Example:
        >>> resize = ResizeTransform(8, 8, 4, 16)
        >>> resize.apply_image(np.zeros((8, 8))).shape, resize.apply_coords(np.array([[2.0, 2.0]]))
        ((4, 16), array([[4., 1.]]))
    """

    def __init__(self, h: int, w: int, new_h: int, new_w: int, interp: int = 1) -> None:
        """Stores the sizes."""
        if min(h, w, new_h, new_w) < 1:
            raise ArgumentError(f"heights and widths are 1 or more; received {(h, w)} and {(new_h, new_w)}")
        self.h, self.w, self.new_h, self.new_w, self.interp = h, w, int(new_h), int(new_w), interp

    def apply_image(self, img: Array) -> Array:
        """Returns the resized image.

        Raises:
            ImageError: the original image has another height or width.
        """
        size = (self.new_w, self.new_h)
        return by_opencv(self, opencv().resize, self._checked(img), size, interpolation=self.interp)

    def apply_coords(self, coords: Array) -> Array:
        """Returns the scaled coordinates."""
        scaled: Array = coords * np.array([self.new_w / self.w, self.new_h / self.h])
        return scaled.astype(coords.dtype, copy=False)

    def apply_mask(self, mask: Array) -> Array:
        """Returns the resized mask: each pixel has the value of the source pixel that contains its centre."""
        rows = (np.arange(self.new_h) * 2 + 1) * self.h // (2 * self.new_h)
        columns = (np.arange(self.new_w) * 2 + 1) * self.w // (2 * self.new_w)
        moved: Array = self._checked(mask)[rows[:, None], columns]
        return moved

    def _checked(self, img: Array) -> Array:
        if img.shape[:2] != (self.h, self.w):
            raise ImageError(f"{self!r}: the image has shape {img.shape}, not {(self.h, self.w)}")
        return img


_log = logging.getLogger("towerpack_dataflow")
_TRIES = 50
_LINEAR, _AREA = 1, 3


@final
class Resize(ImageAugmentor):
    """Resizes to a given shape; interpolates between neighbouring pixels only, also for smaller shapes.

    Args:
        shape: (height, width), or one number for both.
        interp: interpolation, a constant of OpenCV; linear by default.

    Raises:
        ArgumentError: `shape` has another form.

    Example:
        >>> Resize((4, 6)).augment(np.zeros((8, 8, 3), np.uint8)).shape
        (4, 6, 3)
    """

    read_only = True

    def __init__(self, shape: int | tuple[int, int], interp: int = _LINEAR) -> None:
        """Stores the shape."""
        self.shape, self.interp = shape_pair("shape", shape), interp

    def get_transform(self, img: Array) -> Transform:
        """Returns the resize."""
        return ResizeTransform(img.shape[0], img.shape[1], *self.shape, self.interp)


@final
class AntialiasedResize(ImageAugmentor):
    """Resizes to a given shape; when reducing, each pixel is the mean of its source area.

    Args:
        shape: (height, width), or one number for both.

    Raises:
        ArgumentError: `shape` has another form.

    Example:
        >>> image = np.array([[0, 4], [8, 8]], np.uint8)
        >>> AntialiasedResize(1).augment(image)
        array([[5]], dtype=uint8)
    """

    read_only = True

    def __init__(self, shape: int | tuple[int, int]) -> None:
        """Stores the shape."""
        self.shape = shape_pair("shape", shape)

    def get_transform(self, img: Array) -> Transform:
        """Returns the resize."""
        smaller = self.shape[0] <= img.shape[0] and self.shape[1] <= img.shape[1]
        return ResizeTransform(img.shape[0], img.shape[1], *self.shape, _AREA if smaller else _LINEAR)


@final
class ResizeShortestEdge(ImageAugmentor):
    """Resizes the shorter edge to a given length and keeps the aspect ratio.

    Args:
        size: length of the shorter edge, in pixels.
        interp: interpolation, a constant of OpenCV; linear by default.

    Raises:
        ArgumentError: `size` is not an integer from 1 up.

    Example:
        >>> ResizeShortestEdge(10).augment(np.zeros((20, 40), np.uint8)).shape
        (10, 20)
    """

    read_only = True

    def __init__(self, size: int, interp: int = _LINEAR) -> None:
        """Stores the length."""
        self.size, self.interp = arguments.count("size", size), interp

    def get_transform(self, img: Array) -> Transform:
        """Returns the resize."""
        h, w = img.shape[:2]
        scale = self.size / min(h, w)
        shape = (self.size, int(scale * w + 0.5)) if h < w else (int(scale * h + 0.5), self.size)
        return ResizeTransform(h, w, *shape, self.interp)


@final
class RandomResize(ImageAugmentor):
    """Resizes width and height by random factors, or to random sizes.

    Args:
        xrange: bounds of the width: factors if they are floats, pixels if both are integers.
        yrange: the same for the height; equal to `xrange` by default.
        minimum: minimal width and height of the result, in pixels.
        aspect_ratio_thres: largest relative change of the aspect ratio; 0 keeps it. After 50 draws beyond it,
            the image is unchanged, and a warning is logged.
        interp: interpolation, a constant of OpenCV; linear by default.

    Raises:
        ArgumentError: a range is invalid, only one is in pixels, or the ranges differ although the aspect
            ratio is to be kept.

    Example:
        >>> resized = RandomResize((0.5, 1.0), aspect_ratio_thres=0).augment(np.zeros((20, 40), np.uint8))
        >>> 10 <= resized.shape[0] <= 20, 20 <= resized.shape[1] <= 40
        (True, True)
    """

    read_only = True

    def __init__(
        self,
        xrange: tuple[float, float],
        yrange: tuple[float, float] | None = None,
        minimum: tuple[int, int] = (0, 0),
        aspect_ratio_thres: float = 0.15,
        interp: int = _LINEAR,
    ) -> None:
        """Stores the ranges."""
        self.xrange = interval("xrange", xrange, 0)
        self.yrange = self.xrange if yrange is None else interval("yrange", yrange, 0)
        if aspect_ratio_thres < 0 or (aspect_ratio_thres == 0 and self.xrange != self.yrange):
            raise ArgumentError(
                f"aspect_ratio_thres={aspect_ratio_thres!r}: expected a number from 0 up, and for 0 the same "
                f"xrange and yrange; received {self.xrange} and {self.yrange}"
            )
        if _factors(self.xrange) != _factors(self.yrange):
            raise ArgumentError(
                f"xrange and yrange are both in pixels or both factors; received {xrange}, {yrange}"
            )
        self.minimum, self.aspect_ratio_thres, self.interp = minimum, aspect_ratio_thres, interp

    def get_transform(self, img: Array) -> Transform:
        """Returns the resize."""
        h, w = img.shape[:2]
        for _ in range(_TRIES):
            new_w, new_h = self._size(w, h)
            change = abs(new_w * h / (new_h * w) - 1)
            if self.aspect_ratio_thres == 0 or change < self.aspect_ratio_thres + 1e-5:
                return ResizeTransform(h, w, new_h, new_w, self.interp)
        _log.warning("%r found no size for an image of shape %s, which is unchanged", self, img.shape)
        return ResizeTransform(h, w, h, w, self.interp)

    def _size(self, w: int, h: int) -> tuple[int, int]:
        x = self._rand_range(*self.xrange)
        y = (
            self._rand_range(*self.yrange)
            if self.aspect_ratio_thres
            else x
            if _factors(self.xrange)
            else x * h / w
        )
        scale = (w, h) if _factors(self.xrange) else (1, 1)
        sizes = (max(x * scale[0], self.minimum[0]), max(y * scale[1], self.minimum[1]))
        return max(1, int(sizes[0] + 0.5)), max(1, int(sizes[1] + 0.5))


def _factors(bounds: tuple[Any, Any]) -> bool:
    return any(isinstance(bound, float) for bound in bounds)
