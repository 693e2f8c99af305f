"""Conversion to other colour spaces and dtypes."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from ..._errors import ImageError
from .._augmentor import PhotometricAugmentor
from .._image_checks import Array, colour, opencv

__all__ = ["ColorSpace", "Grayscale", "ToFloat32", "ToUint8"]


@final
class ColorSpace(PhotometricAugmentor):
    """Converts to another colour space.

    Args:
        mode: a constant of OpenCV, such as `cv2.COLOR_RGB2HSV`.
        keepdims: whether a grey result keeps an axis of one channel.
    """

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
    """

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
    """Clips to 0 to 255 and converts to uint8, a quarter of the memory of float32; truncates fractions."""

    def _augment(self, img: Array, params: Any) -> Array:
        return np.clip(img, 0, 255).astype(np.uint8)


@final
class ToFloat32(PhotometricAugmentor):
    """Converts to float32; values are unchanged."""

    def _augment(self, img: Array, params: Any) -> Array:
        return img.astype(np.float32)
