"""Random numbers that a resumed training draws again, and the layers made of them."""

from ._dropout import Dropout

__all__ = [
    "Dropout",
]
