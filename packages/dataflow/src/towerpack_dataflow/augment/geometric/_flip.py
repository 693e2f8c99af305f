"""Mirrored and transposed images."""

from __future__ import annotations

from typing import final

import numpy as np

from ..._errors import ArgumentError
from .._augmentor import ImageAugmentor
from .._image_checks import Array, by_opencv, fraction, opencv
from .._transform import NoOpTransform, Transform

__all__ = ["Flip", "FlipTransform", "Transpose", "TransposeTransform"]


@final
class FlipTransform(Transform):
    """Mirrors images of a given shape.

    Args:
        h: height of the images.
        w: width of the images.
        horiz: whether left and right are exchanged; else top and bottom.

    Example:
        >>> flip = FlipTransform(1, 3)
        >>> flip.apply_image(np.array([[1, 2, 3]], np.uint8)), flip.apply_coords(np.array([[0.5, 0.5]]))
        (array([[3, 2, 1]], dtype=uint8), array([[2.5, 0.5]]))
    """

    def __init__(self, h: int, w: int, horiz: bool = True) -> None:
        """Stores the direction."""
        self.h, self.w, self.horiz = h, w, horiz

    def apply_image(self, img: Array) -> Array:
        """Returns the mirrored image."""
        return by_opencv(self, opencv().flip, img, 1 if self.horiz else 0)

    def apply_coords(self, coords: Array) -> Array:
        """Returns the mirrored coordinates."""
        result = coords.copy()
        axis, size = (0, self.w) if self.horiz else (1, self.h)
        result[:, axis] = np.float64(size) - coords[:, axis]
        return result

    def apply_mask(self, mask: Array) -> Array:
        """Returns the mirrored mask, as a view."""
        return mask[:, ::-1] if self.horiz else mask[::-1]


@final
class TransposeTransform(Transform):
    """Exchanges height and width.

    Example:
        >>> TransposeTransform().apply_image(np.array([[1, 2, 3]], np.uint8)).shape
        (3, 1)
    """

    def apply_image(self, img: Array) -> Array:
        """Returns the image with exchanged axes."""
        return by_opencv(self, opencv().transpose, img)

    def apply_coords(self, coords: Array) -> Array:
        """Returns the coordinates with exchanged axes."""
        return coords[:, ::-1].copy()

    def apply_mask(self, mask: Array) -> Array:
        """Returns the mask with exchanged axes, as a view."""
        return np.swapaxes(mask, 0, 1)


@final
class Flip(ImageAugmentor):
    """Mirrors a share of the images in one direction.

    Args:
        horiz: whether to exchange left and right.
        vert: whether to exchange top and bottom.
        prob: probability for each image.

    Raises:
        ArgumentError: not exactly one of `horiz` and `vert` is true, or `prob` is not from 0 to 1.

    Example:
        >>> Flip(horiz=True, prob=1).augment(np.array([[1, 2, 3]], np.uint8))
        array([[3, 2, 1]], dtype=uint8)
    """

    read_only = True

    def __init__(self, horiz: bool = False, vert: bool = False, prob: float = 0.5) -> None:
        """Stores the direction."""
        if bool(horiz) == bool(vert):
            raise ArgumentError(
                f"Flip takes either horiz=True or vert=True; received horiz={horiz!r}, vert={vert!r}. "
                "Use two Flips for both"
            )
        self.horiz, self.vert, self.prob = horiz, vert, fraction("prob", prob)

    def get_transform(self, img: Array) -> Transform:
        """Returns the flip, or an identity."""
        if self._rand_range() >= self.prob:
            return NoOpTransform()
        return FlipTransform(img.shape[0], img.shape[1], bool(self.horiz))


@final
class Transpose(ImageAugmentor):
    """Exchanges height and width of a share of the images.

    Args:
        prob: probability for each image.

    Raises:
        ArgumentError: `prob` is not from 0 to 1.

    Example:
        >>> Transpose(prob=1).augment(np.array([[1, 2, 3]], np.uint8)).shape
        (3, 1)
    """

    read_only = True

    def __init__(self, prob: float = 0.5) -> None:
        """Stores the probability."""
        self.prob = fraction("prob", prob)

    def get_transform(self, img: Array) -> Transform:
        """Returns the transposition, or an identity."""
        return TransposeTransform() if self.rng.uniform() < self.prob else NoOpTransform()
