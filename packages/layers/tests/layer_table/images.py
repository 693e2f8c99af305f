"""Layers over the height and width of images."""

from towerpack_layers import AvgPooling, Conv2D, GlobalAvgPooling, MaxPooling
from towerpack_layers.testing import LayerCase

CASES = [
    LayerCase(AvgPooling, {"pool_size": 2}),
    LayerCase(Conv2D, {"filters": 5, "kernel_size": 3}, ("W", "b")),
    LayerCase(GlobalAvgPooling),
    LayerCase(MaxPooling, {"pool_size": 2}),
]
