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
        labels: of each image, integers.
        shuffle: whether each epoch has an order of its own.
        label_names: what each label means, by its number; empty where nobody says.
    """

    _holds = ()

    def __init__(
        self, images: npt.NDArray[Any], labels: npt.NDArray[Any], shuffle: bool, label_names: tuple[str, ...]
    ) -> None:
        """Keeps the arrays."""
        super().__init__([images, labels.tolist()], shuffle=shuffle)
        self._images = images
        self._label_names = label_names

    def get_label_names(self) -> list[str]:
        """Returns what each label means, by its number."""
        return list(self._label_names)

    def get_per_pixel_mean(self) -> npt.NDArray[np.float32]:
        """Returns the mean image of this part of the data set: float32 of an image's shape."""
        return self._mean().astype(np.float32)

    def get_per_channel_mean(self) -> npt.NDArray[np.float32]:
        """Returns the mean of each channel: float32, one for each, or a single one for grey images."""
        mean: npt.NDArray[np.float64] = self._mean().mean(axis=(0, 1))
        return mean.astype(np.float32)

    def _mean(self) -> npt.NDArray[np.float64]:
        # By blocks: all at once would take eight times the memory of bytes.
        blocks = [self._images[first : first + _ROWS] for first in range(0, len(self._images), _ROWS)]
        total: npt.NDArray[np.float64] = sum(
            (block.sum(axis=0, dtype=np.float64) for block in blocks), np.zeros(self._images.shape[1:])
        )
        return total / len(self._images)
