"""Layers that normalise, and the statistics they keep."""

from ._batch_norm import BatchNorm
from ._batch_renorm import BatchRenorm
from ._example_norms import GroupNorm, InstanceNorm, LayerNorm

__all__ = [
    "BatchNorm",
    "BatchRenorm",
    "GroupNorm",
    "InstanceNorm",
    "LayerNorm",
]
