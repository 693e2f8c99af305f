"""`WarpAffineTransform`: shifts, rotates, scales and shears an image by a matrix."""

from __future__ import annotations

from typing import Any, final

import numpy as np
import numpy.typing as npt

from ..._errors import ArgumentError
from .._image_checks import Array, by_opencv, check_fill, opencv
from .._transform import Transform

__all__ = ["WarpAffineTransform"]

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
