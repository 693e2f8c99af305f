"""Arranges images in a grid, as one image."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..writing import PNG_CHANNELS

__all__ = ["check_images", "image_grid"]


def image_grid(
    images: npt.ArrayLike,
    columns: int,
    value_range: tuple[float, float] = (0.0, 255.0),
    border: int = 2,
    background: int = 255,
) -> npt.NDArray[np.uint8]:
    """Arranges images in a grid, row by row, as one image.

    Args:
        images: shape [number, height, width, channels] with 1 to 4 channels, or [number, height, width].
        columns: the number of images per row; the last row may have fewer.
        value_range: the values that become 0 and 255, such as (-1, 1) for a generator that ends with tanh;
            other values are clipped, and NaN becomes the middle.
        border: number of pixels between and around images.
        background: brightness of the border, from 0 to 255.

    Returns:
        uint8 of shape [height, width, channels]; one channel for images without a channel axis.

    Raises:
        ValueError: the shape is not one of these, the number of columns is below 1, or the range is empty.

    Example:
        >>> image_grid(np.zeros([5, 8, 8, 3]), columns=3).shape  # 2 rows of 3
        (22, 32, 3)
    """
    low, high = value_range
    if not low < high:
        raise ValueError(
            f"image_grid(value_range={value_range!r}): expected two numbers, the lower one first."
        )
    if not isinstance(columns, int) or columns < 1:
        raise ValueError(f"image_grid(columns={columns!r}): expected a whole number of at least 1.")
    batch = np.asarray(images)
    check_images("image_grid", batch.shape)
    batch = batch[..., None] if batch.ndim == 3 else batch
    number, height, width, channels = batch.shape
    rows = -(-number // columns)
    down, right = height + border, width + border
    grid = np.full([rows * down + border, columns * right + border, channels], background, np.uint8)
    for index, image in enumerate(_as_bytes(batch, low, high)):
        top, left = index // columns * down + border, index % columns * right + border
        grid[top : top + height, left : left + width] = image
    return grid


def check_images(shown: str, shape: tuple[int, ...]) -> None:
    """Checks that a shape is a batch of images.

    Args:
        shown: the owner of the images, for the message.
        shape: the shape.

    Raises:
        ValueError: it is not.
    """
    is_colourful = len(shape) == 4 and shape[3] in PNG_CHANNELS
    if not (is_colourful or len(shape) == 3) or 0 in shape:
        raise ValueError(
            f"{shown} takes images of shape [number, height, width, channels] with 1 to 4 channels, or "
            f"[number, height, width]; received shape {shape}."
        )


def _as_bytes(images: np.ndarray, low: float, high: float) -> npt.NDArray[np.uint8]:
    shares = (np.asarray(images, np.float64) - low) / (high - low)
    shares = np.nan_to_num(shares, nan=0.5, posinf=1.0, neginf=0.0)
    return (np.clip(shares, 0, 1) * 255).round().astype(np.uint8)
