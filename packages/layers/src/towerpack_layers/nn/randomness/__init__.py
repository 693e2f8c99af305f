"""Random numbers that a resumed training draws again, and the layers made of them."""

from ._dropout import Dropout
from ._random_key import PHILOX, layer_key
from ._random_tensors import random_normal, random_uniform
from ._spatial_dropout import SpatialDropout

__all__ = [
    "PHILOX",
    "Dropout",
    "SpatialDropout",
    "layer_key",
    "random_normal",
    "random_uniform",
]
