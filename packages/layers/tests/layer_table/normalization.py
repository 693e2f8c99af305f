"""Layers that normalise."""

from collections.abc import Mapping, Sequence

import numpy as np

from towerpack_layers import BatchNorm, BatchRenorm, BNReLU, GroupNorm, InstanceNorm, LayerNorm
from towerpack_layers.testing import LayerCase

Variables = Mapping[str, np.ndarray]

VARIABLES = ("gamma", "beta", "mean/EMA", "variance/EMA")
RENORM = ("gamma", "beta", "moving_mean", "moving_variance", "renorm_mean", "renorm_stddev")
# TensorFlow's kernel for whole batches knows no smaller one.
FUSED_EPSILON = 1.001e-5


def centered(x: np.ndarray, axes: Sequence[int], epsilon: float) -> np.ndarray:
    mean, variance = x.mean(tuple(axes), keepdims=True), x.var(tuple(axes), keepdims=True)
    return (x - mean) / np.sqrt(variance + epsilon)


def batch_norm(x: np.ndarray, variables: Variables, prefix: str = "") -> np.ndarray:
    normal = centered(x, range(x.ndim - 1), FUSED_EPSILON)
    return normal * variables[f"{prefix}gamma"] + variables[f"{prefix}beta"]


def bn_relu(x: np.ndarray, variables: Variables) -> np.ndarray:
    return np.maximum(batch_norm(x, variables, "bn/"), 0)


def ghost_batch_norm(x: np.ndarray, variables: Variables) -> np.ndarray:
    normal = [centered(part, range(x.ndim - 1), 1e-5) for part in (x[:2], x[2:])]
    return np.concatenate(normal) * variables["gamma"] + variables["beta"]


def corrections(x: np.ndarray, variables: Variables) -> Variables:
    """The constants in the gradient of batch renormalisation."""
    axes = tuple(range(x.ndim - 1))
    mean, deviation = x.mean(axes), np.sqrt(x.var(axes) + 1e-5)
    r = np.clip(deviation / variables["renorm_stddev"], 1 / 1.5, 1.5)
    d = np.clip((mean - variables["renorm_mean"]) / variables["renorm_stddev"], -0.5, 0.5)
    return {"r": r, "d": d}


def batch_renorm(x: np.ndarray, variables: Variables) -> np.ndarray:
    corrected = centered(x, range(x.ndim - 1), 1e-5) * variables["r"] + variables["d"]
    return corrected * variables["gamma"] + variables["beta"]


def layer_norm(x: np.ndarray, variables: Variables) -> np.ndarray:
    return centered(x, range(1, x.ndim), 1e-5) * variables["gamma"] + variables["beta"]


def instance_norm(x: np.ndarray, variables: Variables) -> np.ndarray:
    return centered(x, (1, 2), 1e-5) * variables["gamma"] + variables["beta"]


def group_norm(x: np.ndarray, variables: Variables) -> np.ndarray:
    parts = [centered(part, range(1, x.ndim), 1e-5) for part in np.split(x, 3, -1)]
    return np.concatenate(parts, -1) * variables["gamma"] + variables["beta"]


CASES = [
    LayerCase(BNReLU, {}, tuple(f"bn/{name}" for name in VARIABLES), reference=bn_relu),
    LayerCase(BatchNorm, {}, VARIABLES, reference=batch_norm),
    LayerCase(
        BatchNorm, {"virtual_batch_size": 2}, VARIABLES, reference=ghost_batch_norm, label="ghost batches"
    ),
    LayerCase(BatchNorm, {}, VARIABLES, (8, 5), reference=batch_norm, label="2-D"),
    LayerCase(BatchRenorm, {"rmax": 1.5, "dmax": 0.5}, RENORM, reference=batch_renorm, constants=corrections),
    LayerCase(GroupNorm, {"groups": 3}, ("gamma", "beta"), (4, 6, 8, 6), reference=group_norm),
    LayerCase(GroupNorm, {"groups": 3}, ("gamma", "beta"), (4, 6), reference=group_norm, label="2-D"),
    LayerCase(InstanceNorm, {}, ("gamma", "beta"), reference=instance_norm),
    LayerCase(LayerNorm, {}, ("gamma", "beta"), reference=layer_norm),
    LayerCase(LayerNorm, {}, ("gamma", "beta"), (4, 6), reference=layer_norm, label="2-D"),
]
