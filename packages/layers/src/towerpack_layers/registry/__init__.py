"""The registry of layers: names, scopes, default arguments and chains."""

from ._layer_scope import repeating_names
from ._register_layer import REGISTRY, RESERVED, LayerRegistry

__all__ = ["REGISTRY", "RESERVED", "LayerRegistry", "repeating_names"]
