"""Layers that normalise, and the statistics they keep."""

from ._batch_norm import BatchNorm

__all__ = [
    "BatchNorm",
]
