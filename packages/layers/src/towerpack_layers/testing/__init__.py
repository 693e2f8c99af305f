"""The conformance checks for layers."""

from ._check_layer import LayerChecks, check_layer
from ._layer_under_test import ConformanceError, LayerCase, ulp_distance

__all__ = ["ConformanceError", "LayerCase", "LayerChecks", "check_layer", "ulp_distance"]
