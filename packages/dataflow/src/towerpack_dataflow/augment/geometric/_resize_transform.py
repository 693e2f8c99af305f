"""`ResizeTransform`: resizes an image."""

from __future__ import annotations

from typing import final

import numpy as np

from ..._errors import ArgumentError, ImageError
from .._image_checks import Array, by_opencv, opencv
from .._transform import Transform

__all__ = ["ResizeTransform"]


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
