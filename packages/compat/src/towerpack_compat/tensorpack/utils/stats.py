"""`tensorpack.utils.stats`: counters that take any numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["Accuracy", "BinaryStatistics", "OnlineMoments", "RatioCounter", "StatCounter"]


class StatCounter:
    """Computes the mean, the sum and the extremes of numbers."""

    def __init__(self) -> None:
        self.reset()

    def feed(self, v: Any) -> None:
        """Adds a number."""
        self._values.append(v)

    def reset(self) -> None:
        """Forgets all numbers."""
        self._values: list[Any] = []

    @property
    def count(self) -> int:
        """How many numbers there are."""
        return len(self._values)

    @property
    def average(self) -> Any:
        """The mean."""
        assert self._values
        return np.mean(self._values)

    @property
    def sum(self) -> Any:
        """The sum."""
        assert self._values
        return np.sum(self._values)

    @property
    def max(self) -> Any:
        """The largest number."""
        return max(self._values)

    @property
    def min(self) -> Any:
        """The smallest number."""
        return min(self._values)

    def samples(self) -> list[Any]:
        """Returns the numbers."""
        return self._values


class RatioCounter:
    """Computes the ratio of two sums."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Begins at zero."""
        self._count, self._total = 0, 0

    def feed(self, count: Any, total: Any = 1) -> None:
        """Adds to both sums."""
        self._count += count
        self._total += total

    @property
    def ratio(self) -> Any:
        """The ratio; 0 without any total."""
        return self._count * 1.0 / self._total if self._total else 0

    @property
    def total(self) -> Any:
        """The second sum."""
        return self._total

    @property
    def count(self) -> Any:
        """The first sum."""
        return self._count


class Accuracy(RatioCounter):
    """A `RatioCounter` with another name for its ratio."""

    @property
    def accuracy(self) -> Any:
        """The ratio."""
        return self.ratio


class BinaryStatistics:
    """Computes precision and recall."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Begins at zero."""
        self.nr_pos = self.nr_neg = self.nr_pred_pos = self.nr_pred_neg = self.corr_pos = self.corr_neg = 0

    def feed(self, pred: np.ndarray, label: np.ndarray) -> None:
        """Adds predictions and labels, arrays of 0 and 1."""
        assert pred.shape == label.shape, f"{pred.shape} != {label.shape}"
        self.nr_pos += (label == 1).sum()
        self.nr_neg += (label == 0).sum()
        self.nr_pred_pos += (pred == 1).sum()
        self.nr_pred_neg += (pred == 0).sum()
        self.corr_pos += ((pred == 1) & (pred == label)).sum()
        self.corr_neg += ((pred == 0) & (pred == label)).sum()

    @property
    def precision(self) -> Any:
        """The share of positive predictions that are right."""
        return self.corr_pos * 1.0 / self.nr_pred_pos if self.nr_pred_pos else 0

    @property
    def recall(self) -> Any:
        """The share of positive labels that are predicted."""
        return self.corr_pos * 1.0 / self.nr_pos if self.nr_pos else 0

    @property
    def false_positive(self) -> Any:
        """The share of positive predictions that are wrong."""
        return 1 - self.precision if self.nr_pred_pos else 0

    @property
    def false_negative(self) -> Any:
        """The share of positive labels that are not predicted."""
        return 1 - self.recall if self.nr_pos else 0


class OnlineMoments:
    """Computes the mean and the variance of numbers or arrays that come one by one."""

    def __init__(self) -> None:
        self._mean: Any = 0
        self._squares: Any = 0
        self._count = 0

    def feed(self, x: Any) -> None:
        """Adds a number, or an array of the same shape as the others."""
        self._count += 1
        difference = x - self._mean
        self._mean = self._mean + difference * (1.0 / self._count)
        self._squares = self._squares + difference * (x - self._mean)

    @property
    def mean(self) -> Any:
        """The mean."""
        return self._mean

    @property
    def variance(self) -> Any:
        """The variance, whose divisor is one less than the count."""
        return self._squares / (self._count - 1)

    @property
    def std(self) -> Any:
        """The standard deviation."""
        return np.sqrt(self.variance)
