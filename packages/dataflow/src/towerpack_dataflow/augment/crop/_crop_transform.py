"""`CropTransform`: a rectangle of an image."""

from __future__ import annotations

from typing import final

import numpy as np

from ..._errors import ArgumentError, ImageError
from .._image_checks import Array
from .._transform import Transform

__all__ = ["CropTransform"]


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
