"""The cost of one forward pass: multiplications and additions, and the memory for its gradients."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import final

import attrs
import tensorflow.compat.v1 as tf

from towerpack_callbacks.graph import find_ancestors, reads_variable

__all__ = ["ForwardCost", "forward_cost"]

# Ops that perform nearly all of a network's arithmetic.
_PRODUCTS = {"BatchMatMulV2", "BatchMatMulV3", "Conv2D", "DepthwiseConv2dNative", "MatMul"}
# Ops that may stand between a variable and the op that uses it.
_PASSES_ON = {"Cast", "ExpandDims", "Identity", "Reshape", "Split", "Squeeze", "StridedSlice", "Transpose"}


@final
@attrs.frozen
class ForwardCost:
    """Costs for one example if the batch size is unknown, otherwise for one batch.

    Attributes:
        flops: multiplications and additions, keyed by the name of the variable; those between activations
            under "". Matrix products and convolutions count, also in unrolled loops, but not in the bodies
            of TensorFlow's loops.
        activation_bytes: the size of the results of the forward pass that gradients need; 0 without
            gradients.
    """

    flops: dict[str, int]
    activation_bytes: int


def forward_cost(outputs: Sequence[tf.Tensor]) -> ForwardCost:
    """Sums up the cost of the ops on which the given tensors depend; unknown sizes count as 1.

    Args:
        outputs: the cost of one tower, or its predictions.
    """
    forward = find_ancestors(outputs)
    flops: Counter[str] = Counter()
    kept: dict[str, int] = {}
    for op in forward:
        if op.type in _PRODUCTS:
            flops[_variable_of(op)] += _flops(op)
        for tensor in op.outputs:
            if _is_activation(op, tensor) and any(user not in forward for user in tensor.consumers()):
                kept[tensor.name] = _elements(tensor) * tensor.dtype.size
    return ForwardCost(dict(flops), sum(kept.values()))


def _flops(op: tf.Operation) -> int:
    """Two operations for each product of an activation and a weight."""
    left, right, out = op.inputs[0], op.inputs[1], op.outputs[0]
    if op.type == "MatMul":
        summed = _size(left, 0 if op.get_attr("transpose_a") else 1)
    elif op.type == "DepthwiseConv2dNative":
        summed = _size(right, 0) * _size(right, 1)
    elif op.type == "Conv2D":
        summed = _size(right, 0) * _size(right, 1) * _size(right, 2)
    else:
        summed = _size(left, -2 if op.get_attr("adj_x") else -1)
    return 2 * _elements(out) * summed


def _variable_of(op: tf.Operation) -> str:
    for tensor in op.inputs:
        source = tensor.op
        while source.type in _PASSES_ON:
            source = source.inputs[1 if source.type == "Split" else 0].op
        if reads_variable(source) and source.inputs:
            return str(source.inputs[0].op.name)
    return ""


def _is_activation(op: tf.Operation, tensor: tf.Tensor) -> bool:
    return bool(op.inputs) and not reads_variable(op) and tensor.dtype not in {tf.resource, tf.variant}


def _elements(tensor: tf.Tensor) -> int:
    sizes = tensor.shape.as_list() if tensor.shape.rank is not None else []
    return math.prod(size or 1 for size in sizes)


def _size(tensor: tf.Tensor, axis: int) -> int:
    return 1 if tensor.shape.rank is None else tensor.shape.as_list()[axis] or 1
