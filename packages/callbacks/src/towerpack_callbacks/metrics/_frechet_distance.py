"""The Fréchet distance between two sets of samples."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .._errors import SamplesError
from ._sample_checks import Float64Array, as_finite_array, as_samples, check_same_dimension

__all__ = ["frechet_distance", "frechet_distance_of_moments"]

# The tolerance for negative eigenvalues of a covariance due to rounding, relative to the largest.
_TOLERANCE = 1e-6


def frechet_distance(features_a: npt.ArrayLike, features_b: npt.ArrayLike) -> float:
    """Computes the Fréchet distance between normal distributions fitted to two sets of features.

    It is `|mean_a - mean_b|^2 + tr(cov_a + cov_b - 2 (cov_a cov_b)^(1/2))`, the squared 2-Wasserstein
    distance; with Inception features it is known as FID (Heusel et al. 2017, arXiv:1706.08500). It falls with
    the number of samples, so only distances with equal numbers of samples are comparable. Covariances may be
    singular: the trace of the root is the sum of the singular values of `X_a X_b^T` of the centred features.

    Args:
        features_a: shape [n, dimension], at least 2 samples.
        features_b: shape [m, dimension].

    Returns:
        The distance, 0 or more, in the squared unit of the features.

    Raises:
        TypeError: the features are not real numbers.
        SamplesError: there are too few samples, a value is not finite, or the dimensions differ.

    Example:
        >>> ring = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])
        >>> round(frechet_distance(ring, ring + [3.0, 4.0]), 9)
        25.0
    """
    a = as_samples("features_a", features_a, 2, "a covariance")
    b = as_samples("features_b", features_b, 2, "a covariance")
    check_same_dimension(("features_a", "features_b"), a, b)
    return _distance(a.mean(0), _root_of_samples(a), b.mean(0), _root_of_samples(b))


def frechet_distance_of_moments(
    mean_a: npt.ArrayLike, covariance_a: npt.ArrayLike, mean_b: npt.ArrayLike, covariance_b: npt.ArrayLike
) -> float:
    """Computes the Fréchet distance between two normal distributions.

    Use it to avoid storing the features of many real samples: `x.mean(0)` and `np.cov(x, rowvar=False)`
    suffice.

    Args:
        mean_a: shape [dimension].
        covariance_a: shape [dimension, dimension]; it may be singular.
        mean_b: shape [dimension].
        covariance_b: shape [dimension, dimension].

    Returns:
        The distance, 0 or more.

    Raises:
        TypeError: the moments are not real numbers.
        SamplesError: a value is not finite, the dimensions differ, or a matrix is not a covariance.

    Example:
        >>> frechet_distance_of_moments([0.0], [[1.0]], [3.0], [[4.0]])  # 3^2 + (1 - 2)^2
        10.0
    """
    a, b = as_finite_array("mean_a", mean_a, 1), as_finite_array("mean_b", mean_b, 1)
    check_same_dimension(("mean_a", "mean_b"), a, b)
    roots = [
        _root_of_covariance(name, covariance, len(a))
        for name, covariance in (("covariance_a", covariance_a), ("covariance_b", covariance_b))
    ]
    return _distance(a, roots[0], b, roots[1])


def _distance(
    mean_a: Float64Array, root_a: Float64Array, mean_b: Float64Array, root_b: Float64Array
) -> float:
    """Computes the distance from means, and from roots with `root^T root` = covariance."""
    # The trace of (A^T A B^T B)^(1/2) is the nuclear norm of A B^T. It is exact for singular covariances, for
    # which the root of a product has rounding errors as eigenvalues and loses half of the digits.
    trace_of_root = np.linalg.svd(root_a @ root_b.T, compute_uv=False).sum()
    traces = np.square(root_a).sum() + np.square(root_b).sum()
    return max(0.0, float(np.square(mean_a - mean_b).sum() + traces - 2 * trace_of_root))


def _root_of_samples(samples: Float64Array) -> Float64Array:
    centred: Float64Array = (samples - samples.mean(0)) / np.sqrt(len(samples) - 1)
    if len(samples) <= samples.shape[1]:
        return centred
    return np.asarray(np.linalg.qr(centred, mode="r"), np.float64)  # equivalent, and smaller


def _root_of_covariance(name: str, given: npt.ArrayLike, dimension: int) -> Float64Array:
    covariance = as_finite_array(name, given, 2)
    if covariance.shape != (dimension, dimension):
        raise SamplesError(
            f"{name} has shape {covariance.shape}: expected {(dimension, dimension)}, to match the means."
        )
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    scale = np.abs(values).max(initial=0.0)
    if values.min(initial=0.0) < -_TOLERANCE * scale or not np.allclose(
        covariance, covariance.T, rtol=0, atol=_TOLERANCE * scale
    ):
        raise SamplesError(
            f"{name} is not symmetric with eigenvalues of 0 or more: expected np.cov(x, rowvar=False)."
        )
    # Smaller values are rounding errors of zeros.
    kept = values > dimension * np.finfo(np.float64).eps * scale
    root: Float64Array = np.sqrt(values[kept])[:, None] * vectors[:, kept].T
    return root
