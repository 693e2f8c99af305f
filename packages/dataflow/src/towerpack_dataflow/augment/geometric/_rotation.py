"""Rotations around a random centre, and rotations with a crop to the valid area."""

from __future__ import annotations

import math
from typing import Any, final

import numpy as np

from ..._errors import ArgumentError
from .._augmentor import ImageAugmentor
from .._image_checks import Array, interval, opencv
from .._transform import Transform, TransformList
from ._warp import WarpAffineTransform

__all__ = ["Rotation", "RotationAndCropValid"]

_REPLICATE = 1


@final
class Rotation(ImageAugmentor):
    """Rotates around a random centre.

    Args:
        max_deg: largest angle, in degrees.
        center_range: bounds of the centre, as shares of width and height.
        interp: interpolation, a constant of OpenCV; linear by default.
        border: border mode, a constant of OpenCV; repeats the edge by default.
        step_deg: angles are multiples of it; a divisor of 180, for `max_deg=180` alone.
        border_value: value of a constant border.

    Raises:
        ArgumentError: an angle is invalid.
    """

    def __init__(
        self,
        max_deg: float,
        center_range: tuple[float, float] = (0, 1),
        interp: int = 1,
        border: int = _REPLICATE,
        step_deg: float | None = None,
        border_value: Any = 0,
    ) -> None:
        """Stores the bounds."""
        self.max_deg, self.step_deg = _angles(max_deg, step_deg)
        self.center_range = interval("center_range", center_range)
        self.interp, self.border, self.border_value = interp, border, border_value

    def get_transform(self, img: Array) -> Transform:
        """Returns the rotation."""
        h, w = img.shape[:2]
        x, y = self._rand_range(*self.center_range, size=(2,)) * (w, h) - 0.5
        matrix = _rotation(x, y, _angle(self, self.max_deg, self.step_deg))
        return WarpAffineTransform(matrix, (w, h), self.interp, self.border, self.border_value)


@final
class RotationAndCropValid(ImageAugmentor):
    """Rotates around the centre and crops the largest upright rectangle inside; its size varies.

    Args:
        max_deg: largest angle, in degrees.
        interp: interpolation, a constant of OpenCV; linear by default.
        step_deg: angles are multiples of it; a divisor of 180, for `max_deg=180` alone.

    Raises:
        ArgumentError: an angle is invalid.
    """

    def __init__(self, max_deg: float, interp: int = 1, step_deg: float | None = None) -> None:
        """Stores the bounds."""
        self.max_deg, self.step_deg = _angles(max_deg, step_deg)
        self.interp = interp

    def get_transform(self, img: Array) -> Transform:
        """Returns the rotation, cropped to the rectangle."""
        h, w = img.shape[:2]
        angle = _angle(self, self.max_deg, self.step_deg)
        new_w, new_h = self.largest_rotated_rect(w, h, angle)
        new_w, new_h = max(1, min(new_w, w)), max(1, min(new_h, h))
        matrix = _rotation(w * 0.5 - 0.5, h * 0.5 - 0.5, angle)
        matrix[:, 2] -= int(w * 0.5 - new_w * 0.5), int(h * 0.5 - new_h * 0.5)
        # The rectangle is inside except for rounding: an edge that exceeds the image by a fraction repeats
        # its neighbour.
        return TransformList([WarpAffineTransform(matrix, (new_w, new_h), self.interp, _REPLICATE)])

    @staticmethod
    def largest_rotated_rect(w: float, h: float, angle: float) -> tuple[int, int]:
        """Returns width and height of the largest upright rectangle in a rotated one.

        Args:
            w: width of the rectangle before the rotation.
            h: height of the rectangle before the rotation.
            angle: angle in degrees.
        """
        radians = math.radians(angle)
        sin, cos = abs(math.sin(radians)), abs(math.cos(radians))
        longer, shorter = max(w, h), min(w, h)
        if shorter <= 2 * sin * cos * longer:  # two corners touch the longer sides
            half = 0.5 * shorter
            pair = (half / sin, half / cos) if w >= h else (half / cos, half / sin)
        else:  # each corner touches a side
            double = cos * cos - sin * sin
            pair = ((w * cos - h * sin) / double, (h * cos - w * sin) / double)
        return round(pair[0]), round(pair[1])


def _rotation(x: float, y: float, angle: float) -> Array:
    """Returns the matrix; OpenCV 5 does not accept NumPy scalars."""
    return np.asarray(opencv().getRotationMatrix2D((float(x), float(y)), angle, 1.0), np.float64)


def _angle(augmentor: ImageAugmentor, most: float, step: float | None) -> float:
    angle = float(augmentor._rand_range(-most, most))
    return angle if step is None else angle // step * step


def _angles(most: float, step: float | None) -> tuple[float, float | None]:
    if not 0 <= most <= 180 or (step is not None and (most != 180 or step <= 0 or 180 % step)):
        raise ArgumentError(
            "max_deg is from 0 to 180, and step_deg a divisor of 180 with max_deg=180; received "
            f"{most!r}, {step!r}"
        )
    return most, step
