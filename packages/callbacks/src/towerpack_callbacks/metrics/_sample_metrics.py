"""Distances between samples: Fréchet, kernel, mixture modes, and nearest neighbours."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .._errors import SamplesError

__all__ = [
    "DensityCoverage",
    "Float64Array",
    "KernelDistance",
    "MixtureModes",
    "PrecisionRecall",
    "as_finite_array",
    "as_samples",
    "check_at_least",
    "check_same_dimension",
    "density_coverage",
    "frechet_distance",
    "frechet_distance_of_moments",
    "kernel_distance",
    "mixture_modes",
    "precision_recall",
]


Float64Array = npt.NDArray[np.float64]


def as_samples(name: str, samples: npt.ArrayLike, at_least: int, why: str) -> Float64Array:
    """Converts samples to a float64 matrix.

    Args:
        name: name of the argument.
        samples: shape [number, dimension].
        at_least: the minimum number of samples.
        why: the reason for the minimum, for the message.

    Raises:
        TypeError: the values are no real numbers.
        SamplesError: there are too few samples, a value is not finite, or the shape is wrong.
    """
    matrix = as_finite_array(name, samples, 2)
    number, dimension = matrix.shape
    if number < at_least:
        raise SamplesError(f"{name} has {number} samples; {why} needs {at_least} or more.")
    if not dimension:
        raise SamplesError(f"{name} has shape {matrix.shape}: expected a dimension of at least 1.")
    return matrix


def as_finite_array(name: str, values: npt.ArrayLike, rank: int) -> Float64Array:
    """Converts values to float64.

    Args:
        name: name of the argument.
        values: an array of `rank` axes.
        rank: 1 for a vector, 2 for a matrix.

    Raises:
        TypeError: the values are no real numbers.
        SamplesError: a value is not finite, or the number of axes is wrong.
    """
    given = np.asarray(values)
    if given.dtype.kind not in "fiub" and given.dtype.name != "bfloat16":
        raise TypeError(f"{name} has dtype {given.dtype}: expected real numbers.")
    if given.ndim != rank:
        expected = "[number of samples, dimension]; reshape(len(x), -1) flattens images"
        raise SamplesError(
            f"{name} has shape {given.shape}: expected {expected if rank == 2 else 'one axis'}."
        )
    array = given.astype(np.float64)
    if not np.isfinite(array).all():
        bad = np.unique(np.argwhere(~np.isfinite(array))[:, 0])
        raise SamplesError(
            f"{name} has values that are not finite in {len(bad)} of {len(array)} rows, the first is row "
            f"{bad[0]}. Find the op that makes them, for example with TerminateOnNaN() during training."
        )
    return array


def check_same_dimension(names: tuple[str, str], one: Float64Array, other: Float64Array) -> None:
    """Checks that two sets of samples have the same dimension, their last axis.

    Raises:
        SamplesError: the dimensions differ.
    """
    if one.shape[-1] != other.shape[-1]:
        raise SamplesError(
            f"{names[0]} has dimension {one.shape[-1]}, {names[1]} has {other.shape[-1]}: expected the same "
            "features for both."
        )


def check_at_least(shown: str, value: object, fewest: int) -> None:
    """Checks that an argument is a whole number of at least a given size.

    Args:
        shown: the argument as the message shows it, such as "precision_recall(k=0)".
        value: the argument.
        fewest: the smallest number allowed.

    Raises:
        ValueError: the argument is not a whole number, or too small.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < fewest:
        raise ValueError(f"{shown}: expected a whole number of at least {fewest}.")


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


class KernelDistance(NamedTuple):
    """The kernel distance of two sets of samples.

    Attributes:
        mean: the mean over subsets; an unbiased estimate of the distance, so it may be slightly below 0.
        std: the standard deviation over subsets.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(200, 3))
        >>> distance = kernel_distance(x[:100], x[100:] + 2, 10, 50)
        >>> bool(distance.mean > distance.std)
        True
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


_MOST_DEVIATIONS = 3.0


class MixtureModes(NamedTuple):
    """The modes of a mixture that samples cover.

    Attributes:
        covered: number of modes with a sample of high quality.
        high_quality: fraction of samples of high quality, from 0 to 1.
        reverse_kl: the divergence of the samples' distribution over modes from the uniform one, in nats: 0 at
            best, the logarithm of the number of modes if all samples are in one. NaN without samples of high
            quality.

    Example:
        >>> mixture_modes([[0.0, 0.1], [5.0, 5.0]], [[0, 0], [5, 5], [9, 9]], std=0.1).covered
        2
    """

    covered: int
    high_quality: float
    reverse_kl: float


def mixture_modes(samples: npt.ArrayLike, centres: npt.ArrayLike, std: float) -> MixtureModes:
    """Counts the modes of a mixture of equal Gaussians that samples cover.

    After PacGAN (Lin et al. 2018, arXiv:1712.04086): a sample belongs to the nearest centre; it is of high
    quality if it is less than three standard deviations away; a mode is covered by one such sample. The
    divergence also counts only samples of high quality.

    Args:
        samples: shape [n, dimension].
        centres: the modes' centres, shape [modes, dimension].
        std: the standard deviation of each mode along each axis.

    Raises:
        TypeError: the samples or centres are not real numbers.
        ValueError: the standard deviation is not above 0.
        SamplesError: there is no sample or no centre, a value is not finite, or the dimensions differ.

    Example:
        >>> mixture_modes([[0.0, 0.1], [0.1, 0.0], [5.0, 5.0], [2.0, 2.0]], [[0, 0], [5, 5], [9, 9]], std=0.1)
        MixtureModes(covered=2, high_quality=0.75, reverse_kl=0.462...)
    """
    if not 0 < std < float("inf"):
        raise ValueError(f"mixture_modes(std={std!r}): expected a number above 0.")
    points = as_samples("samples", samples, 1, "a share")
    modes = as_samples("centres", centres, 1, "a mixture")
    check_same_dimension(("samples", "centres"), points, modes)
    distances = np.stack([np.linalg.norm(points - mode, axis=1) for mode in modes], 1)
    is_good = distances.min(1) < _MOST_DEVIATIONS * std
    counts = np.bincount(distances.argmin(1)[is_good], minlength=len(modes))
    return MixtureModes(int(np.count_nonzero(counts)), float(is_good.mean()), _reverse_kl(counts))


def _reverse_kl(counts: npt.NDArray[np.intp]) -> float:
    """Computes the divergence of the distribution of counts from the uniform one."""
    total = counts.sum()
    if not total:
        return float("nan")
    shares = counts[counts > 0] / total
    return max(0.0, float((shares * np.log(shares * len(counts))).sum()))


_BLOCK = 1024  # rows of a distance matrix in memory at a time


class PrecisionRecall(NamedTuple):
    """Improved precision and recall of generated samples.

    Attributes:
        precision: fraction of generated samples within the real distribution, from 0 to 1.
        recall: fraction of real samples within the generated distribution, from 0 to 1.

    Example:
        >>> real = np.arange(10.0)[:, None]
        >>> precision_recall(real, real[:5] + 0.1, k=1).recall
        0.6
    """

    precision: float
    recall: float


class DensityCoverage(NamedTuple):
    """Density and coverage of generated samples.

    Attributes:
        density: about 1 if both distributions are equal; it may exceed 1.
        coverage: fraction of real samples with a generated sample nearby, from 0 to 1.

    Example:
        >>> real = np.arange(10.0)[:, None]
        >>> density_coverage(real, real[:5] + 0.1, k=1).coverage
        0.6
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
