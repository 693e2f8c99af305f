"""`ImageArrays`: the base of data sets of small images that fit into memory, with their means."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..sources._from_arrays import DataFromArrays

__all__ = ["ImageArrays"]

_ROWS = 4096


class ImageArrays(DataFromArrays):
    """Yields `[image, label]` of arrays; addressable.

    Args:
        images: shape [number, height, width] or [number, height, width, channels].
        labels: integer label of each image.
        shuffle: whether each epoch has a different order.
        label_names: names of the labels, in order; empty if unknown.
    """

    def __init__(
        self, images: npt.NDArray[Any], labels: npt.NDArray[Any], shuffle: bool, label_names: tuple[str, ...]
    ) -> None:
        """Stores the arrays."""
        super().__init__([images, labels.tolist()], shuffle=shuffle)
        self._images = images
        self._label_names = label_names

    def get_label_names(self) -> list[str]:
        """Returns the names of the labels, in order."""
        return list(self._label_names)

    def get_per_pixel_mean(self) -> npt.NDArray[np.float32]:
        """Returns the mean image of this part of the data set: float32 of an image's shape."""
        return self._mean().astype(np.float32)

    def get_per_channel_mean(self) -> npt.NDArray[np.float32]:
        """Returns the mean of each channel: float32, one per channel, or a single one for grey images."""
        mean: npt.NDArray[np.float64] = self._mean().mean(axis=(0, 1))
        return mean.astype(np.float32)

    def _mean(self) -> npt.NDArray[np.float64]:
        # In blocks: a single call would take eight times the memory of the bytes.
        blocks = [self._images[first : first + _ROWS] for first in range(0, len(self._images), _ROWS)]
        total: npt.NDArray[np.float64] = sum(
            (block.sum(axis=0, dtype=np.float64) for block in blocks), np.zeros(self._images.shape[1:])
        )
        return total / len(self._images)
