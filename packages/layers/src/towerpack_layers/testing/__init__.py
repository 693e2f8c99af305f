"""What a layer must hold, whoever wrote it."""

from ._layer_case import LayerCase

__all__ = ["LayerCase"]
