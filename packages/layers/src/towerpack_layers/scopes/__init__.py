"""Blocks that change what variables and names the code within them makes."""

from ._mixed_precision import mixed_precision

__all__ = [
    "mixed_precision",
from ._spectral_norm import spectral_norm_scope

__all__ = [
    "spectral_norm_scope",
]
