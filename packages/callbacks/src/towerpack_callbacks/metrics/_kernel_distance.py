"""The kernel distance between two sets of samples."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ._sample_checks import Float64Array, as_samples, check_at_least, check_same_dimension

__all__ = ["KernelDistance", "kernel_distance"]


class KernelDistance(NamedTuple):
    """The kernel distance of two sets of samples.

    Attributes:
        mean: the mean over subsets; an unbiased estimate of the distance, so it may be slightly below 0.
        std: the standard deviation over subsets.
    """

    mean: float
    std: float


def kernel_distance(
    features_a: npt.ArrayLike,
    features_b: npt.ArrayLike,
    subsets: int = 100,
    subset_size: int = 1000,
    seed: int = 2020,
) -> KernelDistance:
    """Computes the squared maximum mean discrepancy of two sets of features with a polynomial kernel.

    The kernel is `(x . y / dimension + 1)^3`; with Inception features the distance is known as KID (Bińkowski
    et al. 2018, arXiv:1801.01401). Its estimate is unbiased, so few samples suffice, and sets of different
    sizes are comparable. Subsets are drawn by `np.random.RandomState(seed)`, which gives the same numbers in
    all releases of NumPy; with the same seed they equal those of torch-fidelity.

    Args:
        features_a: shape [n, dimension].
        features_b: shape [m, dimension].
        subsets: number of subsets.
        subset_size: number of samples in each subset, drawn from both sets without replacement.
        seed: seed of the subsets, from 0 to 2**32 - 1.

    Raises:
        TypeError: the features are not real numbers.
        ValueError: the number of subsets, their size or the seed is out of range.
        SamplesError: there are fewer samples than in a subset, a value is not finite, or the dimensions
            differ.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(200, 3))
        >>> near, far = (kernel_distance(x[:100], x[100:] + by, 10, 50).mean for by in (0, 2))
        >>> far > 10 * abs(near)
        True
    """
    check_at_least(f"kernel_distance(subsets={subsets!r})", subsets, 1)
    check_at_least(f"kernel_distance(subset_size={subset_size!r})", subset_size, 2)
    why = f"a subset of subset_size={subset_size}"
    a = as_samples("features_a", features_a, subset_size, why)
    b = as_samples("features_b", features_b, subset_size, why)
    check_same_dimension(("features_a", "features_b"), a, b)
    draws = np.random.RandomState(seed)
    distances = [
        _discrepancy(_draw(draws, a, subset_size), _draw(draws, b, subset_size)) for _ in range(subsets)
    ]
    return KernelDistance(float(np.mean(distances)), float(np.std(distances)))


def _draw(draws: np.random.RandomState, samples: Float64Array, size: int) -> Float64Array:
    drawn: Float64Array = samples[draws.choice(len(samples), size, replace=False)]
    return drawn


def _discrepancy(x: Float64Array, y: Float64Array) -> float:
    size = len(x)
    within = 0.0
    for same in (x, y):
        kernel = _kernel(same, same)
        within += kernel.sum() - np.trace(kernel)  # pairs of a sample with itself would add a bias
    return float(within / (size * (size - 1)) - 2 * _kernel(x, y).mean())


def _kernel(x: Float64Array, y: Float64Array) -> Float64Array:
    product = x @ y.T / x.shape[1] + 1
    cube: Float64Array = product * product * product
    return cube
