"""Random numbers that a resumed training draws again, and the layers made of them."""

from ._dropout import Dropout
from ._random_key import PHILOX, layer_key

__all__ = [
    "PHILOX",
    "Dropout",
    "layer_key",
]
