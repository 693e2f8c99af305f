"""Metrics of generated samples, in NumPy: how far they are from real ones, and how much of them they cover.

All take arrays, of features or of the samples themselves, and compute in float64. This folder imports no
TensorFlow.
"""

from ._frechet_distance import frechet_distance, frechet_distance_of_moments
from ._kernel_distance import KernelDistance, kernel_distance
from ._mixture_modes import MixtureModes, mixture_modes
from ._neighbour_metrics import DensityCoverage, PrecisionRecall, density_coverage, precision_recall

__all__ = [
    "DensityCoverage",
    "KernelDistance",
    "MixtureModes",
    "PrecisionRecall",
    "density_coverage",
    "frechet_distance",
    "frechet_distance_of_moments",
    "kernel_distance",
    "mixture_modes",
    "precision_recall",
]
