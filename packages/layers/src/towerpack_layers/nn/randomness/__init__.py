"""Random numbers that a resumed training repeats, and layers that use them."""

from ._dropout import Dropout
from ._random_key import generator_of_step, seeded_tower
from ._random_tensors import random_normal, random_uniform
from ._spatial_dropout import SpatialDropout

__all__ = [
    "Dropout",
    "SpatialDropout",
    "generator_of_step",
    "random_normal",
    "random_uniform",
    "seeded_tower",
]
