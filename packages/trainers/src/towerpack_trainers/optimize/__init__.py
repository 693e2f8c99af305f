"""Optimizers, wrappers of optimizers, gradient processors, and the loss scale for float16."""

from towerpack_layers import mixed_precision

from ..towers._compile_towers import compile_training_towers, leave_fusion_to_xla
from ._accumulate import AccumGradOptimizer
from ._adamw import AdamW
from ._gradient_observers import CheckGradient, PrintGradient, SummaryGradient
from ._gradient_processors import (
    FilterNoneGrad,
    GlobalNormClip,
    GradientProcessor,
    MapGradient,
    ScaleGradient,
    apply_grad_processors,
)
from ._lamb import LAMB
from ._lars import LARS
from ._loss_scale import DynamicLossScaleOptimizer
from ._postprocess import PostProcessOptimizer, VariableAssignmentOptimizer
from ._proxy_optimizer import ProxyOptimizer

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
