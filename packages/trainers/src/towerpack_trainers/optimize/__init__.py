"""Optimizers, wrappers of optimizers, gradient processors, and the loss scale for float16."""

from towerpack_layers import mixed_precision

from ..towers._tower import compile_training_towers, leave_fusion_to_xla
from ._gradient_processors import (
    CheckGradient,
    FilterNoneGrad,
    GlobalNormClip,
    GradientProcessor,
    MapGradient,
    PrintGradient,
    ScaleGradient,
    SummaryGradient,
    apply_grad_processors,
)
from ._optimizer_wrappers import (
    AccumGradOptimizer,
    DynamicLossScaleOptimizer,
    PostProcessOptimizer,
    ProxyOptimizer,
    VariableAssignmentOptimizer,
)
from ._optimizers import LAMB, LARS, AdamW

__all__ = [
    "LAMB",
    "LARS",
    "AccumGradOptimizer",
    "AdamW",
    "CheckGradient",
    "DynamicLossScaleOptimizer",
    "FilterNoneGrad",
    "GlobalNormClip",
    "GradientProcessor",
    "MapGradient",
    "PostProcessOptimizer",
    "PrintGradient",
    "ProxyOptimizer",
    "ScaleGradient",
    "SummaryGradient",
    "VariableAssignmentOptimizer",
    "apply_grad_processors",
    "compile_training_towers",
    "leave_fusion_to_xla",
    "mixed_precision",
]
