"""Layers that slide kernels over their input."""

from ._conv import Conv2D

__all__ = [
    "Conv2D",
]
