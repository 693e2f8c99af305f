"""Normalisation of values by mean and deviation, or to bounds."""

from __future__ import annotations

import math
from typing import Any, final

import numpy as np
import numpy.typing as npt

from ..._errors import ArgumentError, ImageError
from .._augmentor import PhotometricAugmentor
from .._image_checks import Array, colour, opencv
from ._brightness import along_row, normalised

__all__ = [
    "Clip",
    "ColorSpace",
    "Grayscale",
    "MeanVarianceNormalize",
    "MinMaxNormalize",
    "Normalize",
    "ToFloat32",
    "ToUint8",
]


@final
class ColorSpace(PhotometricAugmentor):
    """Converts to another colour space.

    Args:
        mode: a constant of OpenCV, such as `cv2.COLOR_RGB2HSV`.
        keepdims: whether a grey result keeps an axis of one channel.

    Example:
        >>> import cv2
        >>> ColorSpace(cv2.COLOR_RGB2HSV).augment(np.array([[[255, 0, 0]]], np.uint8))
        array([[[  0, 255, 255]]], dtype=uint8)
    """

    read_only = True

    def __init__(self, mode: int, keepdims: bool = True) -> None:
        """Stores the arguments."""
        self.mode, self.keepdims = mode, keepdims

    def _augment(self, img: Array, params: Any) -> Array:
        cv2 = opencv()
        try:
            result = np.asarray(cv2.cvtColor(img, self.mode))
        except cv2.error as error:
            raise ImageError(
                f"{self!r}: OpenCV does not convert {img.dtype} of shape {img.shape}: {error}"
            ) from error
        return result[..., None] if self.keepdims and result.ndim < img.ndim else result


@final
class Grayscale(PhotometricAugmentor):
    """Converts to grey.

    Args:
        keepdims: whether the result has shape [height, width, 1]; else [height, width].
        rgb: whether images are RGB; else BGR.
        keepshape: whether grey is repeated in three channels.

    Example:
        >>> Grayscale(keepdims=False, rgb=True).augment(np.array([[[255, 0, 0]]], np.uint8))
        array([[76]], dtype=uint8)
    """

    read_only = True

    def __init__(self, keepdims: bool = True, rgb: bool = False, keepshape: bool = False) -> None:
        """Stores the arguments."""
        self.keepdims, self.rgb, self.keepshape = keepdims, rgb, keepshape

    def _augment(self, img: Array, params: Any) -> Array:
        cv2 = opencv()
        values = colour(self, img) if img.dtype == np.uint8 else colour(self, img).astype(np.float32)
        grey = np.asarray(
            cv2.cvtColor(values, cv2.COLOR_RGB2GRAY if self.rgb else cv2.COLOR_BGR2GRAY), img.dtype
        )
        if self.keepshape:
            return np.repeat(grey[:, :, None], 3, axis=2)
        return grey[:, :, None] if self.keepdims else grey


@final
class ToUint8(PhotometricAugmentor):
    """Clips to 0 to 255 and converts to uint8, a quarter of the memory of float32; truncates fractions.

    Example:
        >>> ToUint8().augment(np.array([[-3.0, 7.9, 300.0]]))
        array([[  0,   7, 255]], dtype=uint8)
    """

    read_only = True

    def _augment(self, img: Array, params: Any) -> Array:
        return np.clip(img, 0, 255).astype(np.uint8)


@final
class ToFloat32(PhotometricAugmentor):
    """Converts to float32; values are unchanged.

    Example:
        >>> ToFloat32().augment(np.array([[1, 2]], np.uint8))
        array([[1., 2.]], dtype=float32)
    """

    read_only = True

    def _augment(self, img: Array, params: Any) -> Array:
        return img.astype(np.float32)


@final
class MeanVarianceNormalize(PhotometricAugmentor):
    """Normalises each image to mean 0 and standard deviation 1, as float32.

    The divisor is at least `1 / sqrt(number of values)`.

    Args:
        all_channel: whether mean and deviation are computed over all channels together.

    Example:
        >>> MeanVarianceNormalize().augment(np.array([[10, 30]], np.uint8))
        array([[-1.,  1.]], dtype=float32)
    """

    read_only = True

    def __init__(self, all_channel: bool = True) -> None:
        """Stores the argument."""
        self.all_channel = all_channel

    def _augment(self, img: Array, params: Any) -> Array:
        together = self.all_channel or img.ndim == 2
        mean, std = opencv().meanStdDev(img.reshape(img.shape[0], -1) if together else img)
        factor = 1 / np.maximum(std, 1 / math.sqrt(img.size))
        if together:
            return normalised(img, np.float32(mean.item()), np.float32(factor.item()))
        width = img.shape[1]
        return normalised(img, along_row(mean.ravel(), width), along_row(factor.ravel(), width))


@final
class MinMaxNormalize(PhotometricAugmentor):
    """Maps the smallest value of each image to `min` and the largest to `max`, as float32.

    An image of one value becomes `min`.

    Args:
        min: smallest value of the result.
        max: largest value of the result.
        all_channel: whether the bounds are computed over all channels together.

    Example:
        >>> MinMaxNormalize(0, 1).augment(np.array([[10, 20, 30]], np.uint8))
        array([[0. , 0.5, 1. ]], dtype=float32)
    """

    read_only = True

    def __init__(self, min: float = 0, max: float = 255, all_channel: bool = True) -> None:
        """Stores the arguments."""
        self.min, self.max, self.all_channel = min, max, all_channel

    def _augment(self, img: Array, params: Any) -> Array:
        values = img.astype(np.float32)
        axes = None if self.all_channel else (0, 1)
        low, high = np.min(values, axis=axes, keepdims=True), np.max(values, axis=axes, keepdims=True)
        spread = np.where(high > low, high - low, np.float32(1))
        return np.asarray((values - low) / spread * np.float32(self.max - self.min) + np.float32(self.min))


@final
class Normalize(PhotometricAugmentor):
    """Subtracts a mean and divides by a deviation, the same for all images; float32.

    Args:
        mean: a number, or one per channel, in units of the image.
        std: a number, or one per channel.

    Raises:
        ArgumentError: a deviation is not above 0.

    Example:
        >>> Normalize(100, 50).augment(np.full((1, 1), 200, np.uint8))
        array([[2.]], dtype=float32)
    """

    read_only = True

    def __init__(self, mean: npt.ArrayLike, std: npt.ArrayLike) -> None:
        """Stores the numbers."""
        self.mean, self.std = np.asarray(mean, np.float32), np.asarray(std, np.float32)
        if not (self.std > 0).all():
            raise ArgumentError(f"std is above 0; received {std!r}")
        self._rows: tuple[Any, Array, Array] = (None, self.mean, self.std)

    def _augment(self, img: Array, params: Any) -> Array:
        rows = self._rows  # of the last image, which usually has the same shape
        if rows[0] != img.shape[1:]:
            rows = self._rows = (img.shape[1:], *self._made_rows(img))
        return normalised(img, rows[1], rows[2])

    def _made_rows(self, img: Array) -> tuple[Array, Array]:
        for numbers in (self.mean, self.std):
            if numbers.ndim and numbers.shape != img.shape[2:]:
                raise ImageError(
                    f"{self!r}: the image has shape {img.shape}; use a number, or one per channel"
                )
        return along_row(self.mean, img.shape[1]), along_row(1 / self.std, img.shape[1])


@final
class Clip(PhotometricAugmentor):
    """Clips values.

    Args:
        min: smallest value of the result.
        max: largest value of the result.

    Raises:
        ArgumentError: `min` is above `max`.

    Example:
        >>> Clip(0, 9).augment(np.array([[-5.0, 20.0]]))
        array([[0., 9.]])
    """

    read_only = True

    def __init__(self, min: float = 0, max: float = 255) -> None:
        """Stores the bounds."""
        if min > max:
            raise ArgumentError(f"min is at most max; received {min!r} and {max!r}")
        self.min, self.max = min, max

    def _augment(self, img: Array, params: Any) -> Array:
        low, high = (max(self.min, 0), min(self.max, 255)) if img.dtype == np.uint8 else (self.min, self.max)
        return np.clip(img, low, high).astype(img.dtype, copy=False)
