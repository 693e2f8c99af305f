"""Data sets of small images that fit into memory, with their means: `ImageArrays` and `Digits`."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from .. import _argument_checks as arguments
from .._errors import extra
from ..sources._from_arrays import DataFromArrays

__all__ = ["Digits", "ImageArrays"]

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


class Digits(DataFromArrays):
    """Yields 1797 handwritten digits of 8 by 8 pixels; addressable, no download.

    A datapoint is `[image, label]`: float32 of shape (8, 8) from 0 to 1, and an int from 0 to 9. Every fifth
    sample of each class is held out as the test set: both have the same mixture, and the split never changes.

    Source: E. Alpaydin, C. Kaynak, "Optical Recognition of Handwritten Digits", UCI, 1998, the test part,
    as in `sklearn.datasets.load_digits`.

    Args:
        train_or_test: `"train"` (1442 samples) or `"test"` (355 samples).
        shuffle: whether each epoch has a different order; by default, only for the training set.

    Raises:
        ArgumentError: `train_or_test` has another value.
        ImportError: scikit-learn is missing.

    Example:
        >>> image, label = next(iter(Digits("test")))
        >>> image.shape, image.dtype, label
        ((8, 8), dtype('float32'), 5)
    """

    def __init__(self, train_or_test: Literal["train", "test"], shuffle: bool | None = None) -> None:
        """Loads the samples."""
        arguments.one_of("train_or_test", train_or_test, ("train", "test"))
        images, labels = _load()
        held_out = _every_fifth_of_each_class(labels)
        chosen = held_out if train_or_test == "test" else ~held_out
        components = [images[chosen], labels[chosen].tolist()]
        super().__init__(components, shuffle=train_or_test == "train" if shuffle is None else shuffle)


def _load() -> tuple[np.ndarray, np.ndarray]:
    with extra("datasets", "loading the digits, which come with scikit-learn,"):
        from sklearn.datasets import load_digits
    digits = load_digits()
    return (digits.images / 16.0).astype(np.float32), digits.target


def _every_fifth_of_each_class(labels: np.ndarray) -> np.ndarray:
    held_out = np.zeros(len(labels), bool)
    for label in np.unique(labels):
        held_out[np.flatnonzero(labels == label)[4::5]] = True
    return held_out
