"""Shifts, and affine transforms around the centre."""

from __future__ import annotations

import math
from typing import Any, final

import numpy as np

from ..._errors import ArgumentError
from .._augmentor import ImageAugmentor
from .._image_checks import Array, interval, opencv
from .._transform import Transform
from ._warp_transform import WarpAffineTransform

__all__ = ["Affine", "Shift"]

_REPLICATE = 1


@final
class Shift(ImageAugmentor):
    """Shifts by whole pixels.

    Args:
        horiz_frac: largest shift in x, as a share of the width, below 1.
        vert_frac: largest shift in y, as a share of the height, below 1.
        border: border mode, a constant of OpenCV; repeats the last row or column by default.
        border_value: value of a constant border.

    Raises:
        ArgumentError: a share is not from 0 to below 1.
    """

    def __init__(
        self, horiz_frac: float = 0, vert_frac: float = 0, border: int = _REPLICATE, border_value: Any = 0
    ) -> None:
        """Stores the arguments."""
        if not (0 <= horiz_frac < 1 and 0 <= vert_frac < 1):
            raise ArgumentError(f"shifts are from 0 to below 1; received {horiz_frac!r} and {vert_frac!r}")
        self.horiz_frac, self.vert_frac = horiz_frac, vert_frac
        self.border, self.border_value = border, border_value

    def get_transform(self, img: Array) -> Transform:
        """Returns the shift."""
        h, w = img.shape[:2]
        dx = np.round(self._rand_range(-self.horiz_frac * w, self.horiz_frac * w))
        dy = np.round(self._rand_range(-self.vert_frac * h, self.vert_frac * h))
        return WarpAffineTransform(
            [[1, 0, dx], [0, 1, dy]], (w, h), border_mode=self.border, border_value=self.border_value
        )


@final
class Affine(ImageAugmentor):
    """Scales, shifts, rotates and shears around the centre.

    Args:
        scale: bounds of the factor; no scaling by default.
        translate_frac: largest shifts in x and y, as shares of width and height; rounded to whole pixels.
        rotate_max_deg: largest angle, in degrees.
        shear: largest shear angle of vertical lines, in degrees.
        interp: interpolation, a constant of OpenCV; linear by default.
        border: border mode, a constant of OpenCV; repeats the edge by default.
        border_value: value of a constant border.

    Raises:
        ArgumentError: bounds or angles are invalid.
    """

    def __init__(
        self,
        scale: tuple[float, float] | None = None,
        translate_frac: tuple[float, float] | None = None,
        rotate_max_deg: float = 0.0,
        shear: float = 0.0,
        interp: int = 1,
        border: int = _REPLICATE,
        border_value: Any = 0,
    ) -> None:
        """Stores the arguments."""
        self.scale = None if scale is None else interval("scale", scale, 1e-6)
        if translate_frac is not None and not (
            len(translate_frac) == 2 and all(0 <= share <= 1 for share in translate_frac)
        ):
            raise ArgumentError(f"translate_frac is two shares from 0 to 1; received {translate_frac!r}")
        if not 0 <= rotate_max_deg <= 180 or not 0 <= shear < 90:
            raise ArgumentError(
                f"rotate_max_deg is from 0 to 180 and shear from 0 to below 90; received {rotate_max_deg!r} "
                f"and {shear!r}"
            )
        self.translate_frac, self.rotate_max_deg, self.shear = translate_frac, rotate_max_deg, shear
        self.interp, self.border, self.border_value = interp, border, border_value

    def get_transform(self, img: Array) -> Transform:
        """Returns the transform."""
        h, w = img.shape[:2]
        scale = float(self._rand_range(*self.scale)) if self.scale is not None else 1.0
        shift = [0.0, 0.0]
        if self.translate_frac is not None:
            reach = self.translate_frac[0] * w, self.translate_frac[1] * h
            shift = [round(self._rand_range(-most, most)) for most in reach]
        matrix = self._matrix(w * 0.5 - 0.5, h * 0.5 - 0.5, scale)
        matrix[:, 2] += shift
        return WarpAffineTransform(matrix, (w, h), self.interp, self.border, self.border_value)

    def _matrix(self, x: float, y: float, scale: float) -> Array:
        """Returns the matrix with the fixed centre (x, y)."""
        lean = math.radians(self._rand_range(-self.shear, self.shear)) if self.shear else 0.0
        angle = float(self._rand_range(-self.rotate_max_deg, self.rotate_max_deg))
        matrix = np.asarray(opencv().getRotationMatrix2D((x, y), angle, scale), np.float64)
        matrix[:, 1] = matrix[:, 1] * math.cos(lean) + matrix[:, 0] * math.sin(lean)
        matrix[:, 2] = np.array([x, y]) - matrix[:, :2] @ np.array([x, y])
        return matrix
