"""`tensorpack.utils.stats`: counters of statistics."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["Accuracy", "BinaryStatistics", "OnlineMoments", "RatioCounter", "StatCounter"]


class StatCounter:
    """Computes the mean, sum, minimum and maximum of numbers."""

    count = property(lambda self: len(self._values), doc="The count of numbers.")
    average = property(lambda self: np.mean(self._some()), doc="The mean.")
    sum = property(lambda self: np.sum(self._some()), doc="The sum.")
    max = property(lambda self: max(self._values), doc="The largest number.")
    min = property(lambda self: min(self._values), doc="The smallest number.")

    def __init__(self) -> None:
        self.reset()

    def feed(self, v: Any) -> None:
        """Adds a number."""
        self._values.append(v)

    def reset(self) -> None:
        """Removes all numbers."""
        self._values: list[Any] = []

    def samples(self) -> list[Any]:
        """Returns the numbers."""
        return self._values

    def _some(self) -> list[Any]:
        assert self._values
        return self._values


class RatioCounter:
    """Computes the ratio of two sums, `count` and `total`."""

    ratio = property(lambda self: _share(self.count, self.total), doc="The ratio; 0 if the total is 0.")

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Resets the counts to zero."""
        self.count, self.total = 0, 0

    def feed(self, count: Any, total: Any = 1) -> None:
        """Adds to both sums."""
        self.count += count
        self.total += total


class Accuracy(RatioCounter):
    """A `RatioCounter` with another name for its ratio."""

    accuracy = RatioCounter.ratio


class BinaryStatistics:
    """Computes `precision` and `recall`, and `false_positive` and `false_negative`, their complements."""

    precision = property(lambda self: _share(self.corr_pos, self.nr_pred_pos))
    recall = property(lambda self: _share(self.corr_pos, self.nr_pos))
    false_positive = property(lambda self: 1 - self.precision if self.nr_pred_pos else 0)
    false_negative = property(lambda self: 1 - self.recall if self.nr_pos else 0)

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Resets the counts to zero."""
        self.nr_pos = self.nr_neg = self.nr_pred_pos = self.nr_pred_neg = self.corr_pos = self.corr_neg = 0

    def feed(self, pred: np.ndarray, label: np.ndarray) -> None:
        """Adds predictions and labels: arrays of 0 and 1."""
        assert pred.shape == label.shape, f"{pred.shape} != {label.shape}"
        self.nr_pos += (label == 1).sum()
        self.nr_neg += (label == 0).sum()
        self.nr_pred_pos += (pred == 1).sum()
        self.nr_pred_neg += (pred == 0).sum()
        self.corr_pos += ((pred == 1) & (pred == label)).sum()
        self.corr_neg += ((pred == 0) & (pred == label)).sum()


def _share(part: Any, whole: Any) -> Any:
    return part * 1.0 / whole if whole else 0


class OnlineMoments:
    """Computes the running mean and variance of numbers or arrays."""

    variance = property(
        lambda self: self._squares / (self._count - 1),
        doc="The variance; the divisor is the count minus one.",
    )
    std = property(lambda self: np.sqrt(self.variance), doc="The standard deviation.")

    def __init__(self) -> None:
        self.mean: Any = 0
        self._squares: Any = 0
        self._count = 0

    def feed(self, x: Any) -> None:
        """Adds a number, or an array of the same shape as the others."""
        self._count += 1
        difference = x - self.mean
        self.mean = self.mean + difference * (1.0 / self._count)
        self._squares = self._squares + difference * (x - self.mean)
