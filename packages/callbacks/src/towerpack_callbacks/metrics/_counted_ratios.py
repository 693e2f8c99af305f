"""Ratios counted batch by batch: accuracy, and the hits and false alarms of a binary classifier."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt

from .._errors import SamplesError

__all__ = ["BinaryStatistics", "RatioCounter"]


@final
@dataclass
class RatioCounter:
    """Counts a part of a total, over any number of batches.

    Args:
        count: the initial count.
        total: the initial total.

    Example:
        >>> wrong = RatioCounter()
        >>> wrong.feed(3, 64)
        >>> wrong.feed(1, 16)
        >>> wrong.ratio
        0.05
    """

    count: int = 0
    total: int = 0

    def feed(self, count: int, total: int = 1) -> None:
        """Adds `count` of `total`.

        Raises:
            SamplesError: a number is not a whole number of at least 0, or the count is above the total.
        """
        if not (_is_whole(count) and _is_whole(total) and 0 <= count <= total):
            raise SamplesError(
                f"RatioCounter.feed takes whole numbers with 0 <= count <= total; "
                f"received count={count!r}, total={total!r}."
            )
        self.count += int(count)
        self.total += int(total)

    def reset(self) -> None:
        """Resets all counts."""
        self.count = self.total = 0

    @property
    def ratio(self) -> float:
        """The count divided by the total; 0 if the total is 0."""
        return self.count / self.total if self.total else 0.0


@final
class BinaryStatistics:
    """Counts the results of a binary classifier, over any number of batches.

    A ratio with denominator 0, such as the precision without positive predictions, is 0.

    Source: D. Powers, "Evaluation: from precision, recall and F-measure to ROC", 2011.

    Example:
        >>> found = BinaryStatistics()
        >>> found.feed([1, 1, 0, 0], [1, 0, 0, 1])
        >>> found.precision, found.recall, found.false_positive_rate
        (0.5, 0.5, 0.5)
    """

    def __init__(self) -> None:
        """Starts with all counts at 0."""
        self.reset()

    def reset(self) -> None:
        """Resets all counts."""
        self.true_positives = self.false_positives = self.true_negatives = self.false_negatives = 0

    def feed(self, predictions: npt.ArrayLike, labels: npt.ArrayLike) -> None:
        """Adds a batch.

        Args:
            predictions: the predictions, of any shape: bool, or numbers that are 0 or 1.
            labels: the labels, of the same shape.

        Raises:
            SamplesError: the shapes differ, or a value is neither 0 nor 1.
        """
        said, so = _as_binary("predictions", predictions), _as_binary("labels", labels)
        if said.shape != so.shape:
            raise SamplesError(f"predictions have shape {said.shape}, and labels have shape {so.shape}")
        self.true_positives += int(np.sum(said & so))
        self.false_positives += int(np.sum(said & ~so))
        self.true_negatives += int(np.sum(~said & ~so))
        self.false_negatives += int(np.sum(~said & so))

    @property
    def precision(self) -> float:
        """The fraction of positive predictions that are correct."""
        return _share(self.true_positives, self.false_positives)

    @property
    def recall(self) -> float:
        """The fraction of positives that are predicted as positive."""
        return _share(self.true_positives, self.false_negatives)

    @property
    def false_positive_rate(self) -> float:
        """The fraction of negatives that are predicted as positive."""
        return _share(self.false_positives, self.true_negatives)

    @property
    def false_negative_rate(self) -> float:
        """The fraction of positives that are predicted as negative."""
        return _share(self.false_negatives, self.true_positives)

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        return _share(2 * self.true_positives, self.false_positives + self.false_negatives)


def _share(part: int, rest: int) -> float:
    return part / (part + rest) if part + rest else 0.0


def _is_whole(value: object) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _as_binary(name: str, values: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    array = np.asarray(values)
    if array.dtype.kind not in "biuf" or not np.isin(array, (0, 1)).all():
        raise SamplesError(f"{name} must be bool, or 0 and 1; received {values!r:.60} of {array.dtype}")
    return array.astype(bool)
