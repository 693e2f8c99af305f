"""Shifts and affine transforms of an image, by a matrix."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, final

import numpy as np
import numpy.typing as npt

from ..._errors import ArgumentError, ImageError
from .._augmentor import ImageAugmentor
from .._image_checks import Array, by_opencv, check_fill, interval, opencv, shape_pair
from .._transform import Transform, TransformFactory, TransformList

__all__ = ["Affine", "GaussianDeform", "Rotation", "RotationAndCropValid", "Shift", "WarpAffineTransform"]

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

    Example:
        >>> Shift(horiz_frac=0.25).augment(np.zeros((8, 8), np.uint8)).shape
        (8, 8)
    """

    read_only = True

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

    Example:
        >>> Affine(rotate_max_deg=10, scale=(0.9, 1.1)).augment(np.zeros((8, 8), np.uint8)).shape
        (8, 8)
    """

    read_only = True

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

    Example:
        >>> right = WarpAffineTransform([[1, 0, 1], [0, 1, 0]], dsize=(3, 1))
        >>> right.apply_image(np.array([[1, 2, 3]], np.uint8))
        array([[0, 1, 2]], dtype=uint8)
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

    Example:
        >>> Rotation(15, center_range=(0.5, 0.5)).augment(np.zeros((8, 8), np.uint8)).shape
        (8, 8)
    """

    read_only = True

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

    Example:
        >>> height, width = RotationAndCropValid(15).augment(np.zeros((80, 80), np.uint8)).shape
        >>> 40 < height <= 80, 40 < width <= 80
        (True, True)
    """

    read_only = True

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


_LINEAR = 1


@final
class GaussianDeform(ImageAugmentor):
    """Shifts the image at anchors by random offsets, which decay with the distance from the anchor.

    Args:
        anchors: points (y, x), as shares of height and width.
        shape: height and width of the images.
        sigma: the weight of an anchor at distance d, in shares, is exp(-d**2 / sigma).
        randrange: largest offset in y and x, in pixels; an eighth of the height by default.

    Raises:
        ArgumentError: `shape` has another form.

    Example:
        >>> deform = GaussianDeform([(0.5, 0.5)], shape=(8, 8), randrange=1)
        >>> deform.augment(np.zeros((8, 8), np.uint8)).shape
        (8, 8)
    """

    read_only = True

    def __init__(
        self,
        anchors: Sequence[tuple[float, float]],
        shape: tuple[int, int],
        sigma: float = 0.5,
        randrange: float | None = None,
    ) -> None:
        """Computes the weights of the anchors."""
        self.anchors, self.sigma = anchors, sigma
        self.shape = shape_pair("shape", shape)
        self.randrange = self.shape[0] / 8 if randrange is None else randrange
        y, x = (np.arange(size, dtype=np.float32) / size for size in self.shape)
        self._weights = np.stack(
            [np.exp(-((y[:, None] - top) ** 2 + (x - left) ** 2) / sigma) for top, left in anchors], axis=2
        ).astype(np.float32)

    def get_transform(self, img: Array) -> Transform:
        """Returns the deformation of images and masks.

        Raises:
            ImageError: the image has another shape.
        """
        if img.shape[:2] != self.shape:
            raise ImageError(f"{self!r}: the image has shape {img.shape}, not {self.shape}")
        pulls = self.rng.uniform(-self.randrange, self.randrange, (len(self.anchors), 2)).astype(np.float32)
        offsets = self._weights @ pulls
        rows, columns = np.indices(self.shape, dtype=np.float32)
        y, x = rows + offsets[..., 0], columns + offsets[..., 1]
        return TransformFactory(
            self,
            apply_image=lambda image: by_opencv(
                self, opencv().remap, image, x, y, _LINEAR, borderMode=_REPLICATE
            ),
            apply_mask=lambda mask: _nearest(mask, x, y),
        )


def _nearest(mask: Array, x: Array, y: Array) -> Array:
    # OpenCV does not support integers of 32 bits and more, which instance labels may have.
    height, width = mask.shape[:2]
    rows = np.rint(y).astype(np.intp).clip(0, height - 1)
    moved: Array = mask[rows, np.rint(x).astype(np.intp).clip(0, width - 1)]
    return moved
