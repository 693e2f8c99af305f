"""The conformance checks for layers."""

from ._check_layer import LayerChecks, check_layer
from ._layer_case import LayerCase
from ._ulp_distance import ConformanceError, ulp_distance

__all__ = ["ConformanceError", "LayerCase", "LayerChecks", "check_layer", "ulp_distance"]
