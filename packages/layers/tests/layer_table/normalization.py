"""Layers that normalise."""

from towerpack_layers import BatchNorm, BNReLU
from towerpack_layers.testing import LayerCase

VARIABLES = ("gamma", "beta", "mean/EMA", "variance/EMA")

CASES = [
    LayerCase(BNReLU, {}, tuple(f"bn/{name}" for name in VARIABLES)),
    LayerCase(BatchNorm, {}, VARIABLES),
]
