"""Blocks that change what variables and names the code within them makes."""

from ._spectral_norm import spectral_norm_scope

__all__ = [
    "spectral_norm_scope",
]
