"""The number of modes of a Gaussian mixture that samples cover."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ._sample_checks import as_samples, check_same_dimension

__all__ = ["MixtureModes", "mixture_modes"]

_MOST_DEVIATIONS = 3.0


class MixtureModes(NamedTuple):
    """The modes of a mixture that samples cover.

    Attributes:
        covered: number of modes with a sample of high quality.
        high_quality: fraction of samples of high quality, from 0 to 1.
        reverse_kl: the divergence of the samples' distribution over modes from the uniform one, in nats: 0 at
            best, the logarithm of the number of modes if all samples are in one. NaN without samples of high
            quality.
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
