"""Layers that go by the last axis, or element by element."""

from towerpack_layers import Dropout, FullyConnected
from towerpack_layers.testing import LayerCase

CASES = [
    LayerCase(Dropout, {"rate": 0.3}),
    LayerCase(FullyConnected, {"units": 5}, ("W", "b")),
]
