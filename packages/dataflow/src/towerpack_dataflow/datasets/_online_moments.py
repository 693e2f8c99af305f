"""Online statistics of numbers, and of arrays element by element."""

from __future__ import annotations

from typing import Any, final

import numpy as np
import numpy.typing as npt

from .._errors import ArgumentError

__all__ = ["OnlineMoments", "StatCounter"]


@final
class StatCounter:
    """Collects numbers and computes their sum, mean and extremes.

    Attributes:
        samples: the numbers in order.

    Example:
        >>> rewards = StatCounter()
        >>> for reward in (1, 4, 1):
        ...     rewards.feed(reward)
        >>> rewards.average, rewards.max, rewards.count
        (2.0, 4.0, 3)
    """

    def __init__(self) -> None:
        """Starts without numbers."""
        self.samples: list[float] = []

    def feed(self, value: float) -> None:
        """Adds a number.

        Raises:
            ArgumentError: `value` is not a number.
        """
        array = _as_real("StatCounter.feed", value)
        if array.ndim:
            raise ArgumentError(f"StatCounter.feed takes one number; received shape {array.shape}")
        self.samples.append(float(array))

    def reset(self) -> None:
        """Removes all numbers."""
        self.samples = []

    @property
    def count(self) -> int:
        """The number of samples."""
        return len(self.samples)

    @property
    def sum(self) -> float:
        """The sum of the numbers; 0.0 without any."""
        return float(np.sum(self.samples, dtype=np.float64))

    @property
    def average(self) -> float:
        """The mean of the numbers.

        Raises:
            ArgumentError: there are no numbers.
        """
        return float(np.mean(self._some()))

    @property
    def min(self) -> float:
        """The smallest number.

        Raises:
            ArgumentError: there are no numbers.
        """
        return min(self._some())

    @property
    def max(self) -> float:
        """The largest number.

        Raises:
            ArgumentError: there are no numbers.
        """
        return max(self._some())

    def _some(self) -> list[float]:
        if not self.samples:
            raise ArgumentError("a StatCounter without numbers has neither mean nor extremes; feed one first")
        return self.samples


@final
class OnlineMoments:
    """Computes mean and variance, element by element, of arrays of one shape, without storing them.

    For example, the per-pixel mean of the images of a data set. In float64; stable for means far from zero.

    Source: B. P. Welford, "Note on a method for calculating corrected sums of squares and products", 1962.

    Example:
        >>> moments = OnlineMoments()
        >>> for image in (np.array([1, 2]), np.array([3, 6])):
        ...     moments.feed(image)
        >>> moments.mean.tolist(), moments.variance.tolist(), moments.std.tolist()
        ([2.0, 4.0], [1.0, 4.0], [1.0, 2.0])
    """

    def __init__(self) -> None:
        """Starts without arrays."""
        self._mean: npt.NDArray[np.float64] = np.zeros(0)
        self._squares: npt.NDArray[np.float64] = np.zeros(0)
        self.count = 0

    def feed(self, array: npt.ArrayLike) -> None:
        """Adds an array, or a number.

        Raises:
            ArgumentError: it does not hold numbers, or has another shape than earlier ones.
        """
        value = _as_real("OnlineMoments.feed", array)
        if not self.count:
            self._mean, self._squares = np.zeros(value.shape), np.zeros(value.shape)
        elif value.shape != self._mean.shape:
            raise ArgumentError(
                f"OnlineMoments.feed takes arrays of one shape, {self._mean.shape}; received {value.shape}"
            )
        self.count += 1
        change = value - self._mean
        self._mean = self._mean + change / self.count
        self._squares = self._squares + change * (value - self._mean)

    @property
    def mean(self) -> npt.NDArray[np.float64]:
        """The mean of each element.

        Raises:
            ArgumentError: there are no arrays.
        """
        self._check_some()
        return self._mean

    @property
    def variance(self) -> npt.NDArray[np.float64]:
        """The mean square of each element's distance from its mean.

        Raises:
            ArgumentError: there are no arrays.
        """
        self._check_some()
        return self._squares / self.count

    @property
    def std(self) -> npt.NDArray[np.float64]:
        """The square root of the variance.

        Raises:
            ArgumentError: there are no arrays.
        """
        return np.sqrt(self.variance)

    def _check_some(self) -> None:
        if not self.count:
            raise ArgumentError("OnlineMoments without arrays have neither mean nor variance; feed one first")


def _as_real(where: str, value: Any) -> npt.NDArray[np.float64]:
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        raise ArgumentError(f"{where} takes real numbers; received {value!r:.60} of {array.dtype}")
    if np.ma.is_masked(value):
        raise ArgumentError(
            f"{where} takes no masked values; received {value!r:.60}. Use x.compressed(), or fill it"
        )
    return array.astype(np.float64)
