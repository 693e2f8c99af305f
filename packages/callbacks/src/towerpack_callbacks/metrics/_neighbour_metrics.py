"""Nearest-neighbour metrics: precision, recall, density and coverage of generated samples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ._sample_checks import Float64Array, as_samples, check_at_least, check_same_dimension

__all__ = ["DensityCoverage", "PrecisionRecall", "density_coverage", "precision_recall"]

_BLOCK = 1024  # rows of a distance matrix in memory at a time


class PrecisionRecall(NamedTuple):
    """Improved precision and recall of generated samples.

    Attributes:
        precision: fraction of generated samples within the real distribution, from 0 to 1.
        recall: fraction of real samples within the generated distribution, from 0 to 1.
    """

    precision: float
    recall: float


class DensityCoverage(NamedTuple):
    """Density and coverage of generated samples.

    Attributes:
        density: about 1 if both distributions are equal; it may exceed 1.
        coverage: fraction of real samples with a generated sample nearby, from 0 to 1.
    """

    density: float
    coverage: float


def precision_recall(real: npt.ArrayLike, generated: npt.ArrayLike, k: int = 3) -> PrecisionRecall:
    """Computes the improved precision and recall of Kynkäänniemi et al. (2019, arXiv:1904.06991).

    Each sample has a ball with the distance to the k-th nearest neighbour in its set as radius. A sample is
    within a distribution if it lies in a ball of one of its samples. Precision falls with implausible
    samples, recall with missing modes. An outlier among the real samples has a large ball, which does not
    affect `density_coverage`.

    Args:
        real: features of shape [n, dimension], more than k samples.
        generated: features of shape [m, dimension], more than k samples.
        k: the number of neighbours.

    Raises:
        TypeError: the features are no real numbers.
        ValueError: k is no whole number of at least 1.
        SamplesError: there are too few samples, a value is not finite, or the dimensions differ.

    Example:
        >>> real = np.arange(10.0)[:, None]
        >>> precision_recall(real, real[:5] + 0.1, k=1)
        PrecisionRecall(precision=1.0, recall=0.6)
    """
    real, generated = _as_pair("precision_recall", real, generated, k)
    return PrecisionRecall(_share_inside(generated, real, k), _share_inside(real, generated, k))


def density_coverage(real: npt.ArrayLike, generated: npt.ArrayLike, k: int = 5) -> DensityCoverage:
    """Computes the density and coverage of Naeem et al. (2020, arXiv:2002.09797).

    Each real sample has a ball with the distance to its k-th nearest real neighbour as radius. Density is the
    average number of balls that contain a generated sample, divided by k; coverage is the fraction of balls
    that contain a generated sample. A sample on the surface of a ball is outside, as in the authors' code.

    Args:
        real: features of shape [n, dimension], more than k samples.
        generated: features of shape [m, dimension], more than k samples.
        k: the number of neighbours.

    Raises:
        TypeError: the features are no real numbers.
        ValueError: k is no whole number of at least 1.
        SamplesError: there are too few samples, a value is not finite, or the dimensions differ.

    Example:
        >>> real = np.arange(10.0)[:, None]
        >>> density_coverage(real, real[:5] + 0.1, k=1)
        DensityCoverage(density=2.0, coverage=0.6)
    """
    real, generated = _as_pair("density_coverage", real, generated, k)
    radii, inside, covered = _squared_radii(real, k), 0, 0
    for rows, distances in _squared_distances(real, generated):
        in_ball = distances < radii[rows, None]
        inside += int(in_ball.sum())
        covered += int(in_ball.any(1).sum())
    return DensityCoverage(inside / (k * len(generated)), covered / len(real))


def _as_pair(
    function: str, real: npt.ArrayLike, generated: npt.ArrayLike, k: int
) -> tuple[Float64Array, Float64Array]:
    """Checks both sets and subtracts the mean of the real one, so that distances lose no digits."""
    check_at_least(f"{function}(k={k!r})", k, 1)
    why = f"k={k}"
    one = as_samples("real", real, k + 1, why)
    other = as_samples("generated", generated, k + 1, why)
    check_same_dimension(("real", "generated"), one, other)
    centre = one.mean(0)
    return one - centre, other - centre


def _share_inside(samples: Float64Array, others: Float64Array, k: int) -> float:
    """Computes the fraction of samples that lie in the ball of at least one of the others."""
    radii = _squared_radii(others, k)
    inside = sum(int((d <= radii).any(1).sum()) for _, d in _squared_distances(samples, others))
    return inside / len(samples)


def _squared_radii(samples: Float64Array, k: int) -> Float64Array:
    # Index 0 is the sample itself, so the k-th neighbour is at index k.
    return np.concatenate([np.partition(d, k, 1)[:, k] for _, d in _squared_distances(samples, samples)])


def _squared_distances(x: Float64Array, y: Float64Array) -> Iterator[tuple[slice, Float64Array]]:
    """Yields squared distances of shape [rows, len(y)], and the slice of rows of x."""
    squares_x, squares_y = np.square(x).sum(1), np.square(y).sum(1)
    for start in range(0, len(x), _BLOCK):
        rows = slice(start, start + _BLOCK)
        sums = squares_x[rows, None] + squares_y
        distances = sums - 2 * x[rows] @ y.T
        # The remainder of equal samples is a rounding error.
        distances[distances < 4 * np.finfo(np.float64).eps * sums] = 0
        yield rows, distances
