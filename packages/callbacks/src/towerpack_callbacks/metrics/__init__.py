"""Metrics in NumPy: distances between generated and real samples, and ratios of correct predictions.

Metrics of samples take arrays of features or of the samples themselves, and compute in float64. This folder
does not import TensorFlow.
"""

from ._counted_ratios import BinaryStatistics, RatioCounter
from ._sample_metrics import (
    DensityCoverage,
    KernelDistance,
    MixtureModes,
    PrecisionRecall,
    density_coverage,
    frechet_distance,
    frechet_distance_of_moments,
    kernel_distance,
    mixture_modes,
    precision_recall,
)

__all__ = [
    "BinaryStatistics",
    "DensityCoverage",
    "KernelDistance",
    "MixtureModes",
    "PrecisionRecall",
    "RatioCounter",
    "density_coverage",
    "frechet_distance",
    "frechet_distance_of_moments",
    "kernel_distance",
    "mixture_modes",
    "precision_recall",
]
