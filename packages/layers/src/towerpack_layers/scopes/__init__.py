"""Scopes around functions and variables: sharing, naming, remapping and freezing."""

from ._spectral_norm import spectral_norm_scope

__all__ = [
    "spectral_norm_scope",
]
