"""`Digits`: the handwritten digits included in scikit-learn."""

from __future__ import annotations

from typing import Literal

import numpy as np

from .. import _argument_checks as arguments
from .._errors import extra
from ..sources._from_arrays import DataFromArrays

__all__ = ["Digits"]


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
