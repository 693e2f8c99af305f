"""Normalisation layers and their statistics."""

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
