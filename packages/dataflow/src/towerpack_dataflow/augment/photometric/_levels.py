"""Element-wise changes of pixel values: uint8 through a table of its 256 levels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._image_checks import Array, as_before, opencv, with_channels

__all__ = ["along_row", "changed_levels", "looked_up", "mean_of", "mixed", "normalised"]

_LEVELS = np.arange(256, dtype=np.float32)[:, None]


def changed_levels(img: Array, change: Callable[[Array], Array], clip: bool) -> Array:
    """Returns the image with each value changed by a function.

    Args:
        img: an image.
        change: a function of a float32 array with channels, or 1, as its last axis; returns a new array.
        clip: whether float images are also clipped to 0 to 255.
    """
    if img.dtype != np.uint8:
        return as_before(change(img.astype(np.float32)), img.dtype, clip)
    return looked_up(img, as_before(change(_LEVELS), img.dtype, clip))


def looked_up(img: Array, table: Array) -> Array:
    """Returns the entries of a table, shape [256] or [256, channels], at the values of a uint8 image."""
    columns = table.reshape(256, 1, -1)
    return with_channels(opencv().LUT(img, columns if columns.shape[2] > 1 else columns[:, :, 0]), img)


def mean_of(img: Array) -> Any:
    """Returns the mean of each channel, shape [channels]; a number for images without channels."""
    mean = np.asarray(opencv().mean(img), np.float32)
    return mean[0] if img.ndim == 2 else mean[: img.shape[2]]


def mixed(img: Array, other: Array, share: float) -> Array:
    """Returns `share * img + (1 - share) * other`; clips and truncates for uint8."""
    below = -0.499 if img.dtype == np.uint8 else 0.0  # OpenCV rounds
    return np.asarray(opencv().addWeighted(img, share, other, 1 - share, below))


def normalised(img: Array, mean: Any, factor: Any) -> Array:
    """Returns `(img - mean) * factor` as float32, each a number, or a row from `along_row`."""
    values: Array = np.subtract(img.reshape(len(img), -1), mean, dtype=np.float32)
    values *= factor
    return values.reshape(img.shape)


def along_row(each: Any, width: int) -> Array:
    """Returns one number per channel, repeated for a row: vector instructions need more than three."""
    each = np.asarray(each, np.float32)
    return np.broadcast_to(each, (width, *each.shape)).reshape(-1) if each.ndim else each
