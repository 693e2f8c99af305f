"""Shifts and affine transforms of an image, by a matrix."""

from __future__ import annotations

import math
from typing import Any, final

import numpy as np
import numpy.typing as npt

from ..._errors import ArgumentError
from .._augmentor import ImageAugmentor
from .._image_checks import Array, by_opencv, check_fill, interval, opencv
from .._transform import Transform

__all__ = ["Affine", "Shift", "WarpAffineTransform"]

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


_NEAREST = 0
_CHANNELS = ((1,), (3,), (4,))


@final
class WarpAffineTransform(Transform):
    """Moves the pixel at index (x, y) to `mat @ (x, y, 1)`.

    Args:
        mat: shape [2, 3], in pixel indices; coordinates, which are relative to the corner of a pixel instead
            of its centre, are larger by half a pixel.
        dsize: width and height of the result.
        interp: interpolation, a constant of OpenCV; linear by default. Masks use the nearest pixel.
        border_mode: border mode, a constant of OpenCV; `border_value` by default.
        border_value: a number, or one per channel.

    Raises:
        ArgumentError: `mat` has another shape.
    """

    def __init__(
        self,
        mat: npt.ArrayLike,
        dsize: tuple[int, int],
        interp: int = 1,
        border_mode: int = 0,
        border_value: Any = 0,
    ) -> None:
        """Stores the arguments."""
        self.mat = np.asarray(mat, np.float64)
        if self.mat.shape != (2, 3):
            raise ArgumentError(f"mat has shape (2, 3); received {self.mat.shape}")
        self.dsize = (int(dsize[0]), int(dsize[1]))
        self.interp, self.border_mode, self.border_value = interp, border_mode, border_value

    def apply_image(self, img: Array) -> Array:
        """Returns the transformed image.

        Raises:
            ImageError: OpenCV rejects the image, or uint8 cannot represent `border_value`.
        """
        check_fill(self, "border_value", self.border_value, img)
        return self._warped(img, self.interp)

    def apply_coords(self, coords: Array) -> Array:
        """Returns the transformed coordinates."""
        moved = (coords - np.float64(0.5)) @ self.mat[:, :2].T + self.mat[:, 2] + 0.5
        return np.asarray(moved, coords.dtype)

    def apply_mask(self, mask: Array) -> Array:
        """Returns the transformed mask; a constant border is filled with 0."""
        if mask.dtype in (np.uint8, np.uint16) and (mask.ndim == 2 or mask.shape[2:] in _CHANNELS):
            return self._warped(mask, _NEAREST, 0)
        # OpenCV supports few dtypes and channels, and rounds some differently; so it moves rows and columns.
        places: Array = np.indices(mask.shape[:2], np.float32)
        rows, columns = (self._warped(places[axis], _NEAREST, -1).astype(np.intp) for axis in (0, 1))
        moved: Array = mask[rows, columns]
        moved[rows < 0] = 0
        return moved

    def _warped(self, img: Array, interp: int, outside: Any = None) -> Array:
        value = self.border_value if outside is None else outside
        if np.ndim(value) == 0:
            value = (float(value),) * 4  # with a single number OpenCV fills only the first channel
        return by_opencv(
            self,
            opencv().warpAffine,
            img,
            self.mat,
            self.dsize,
            flags=interp,
            borderMode=self.border_mode,
            borderValue=value,
        )
