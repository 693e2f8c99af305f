"""Describes a training before it begins: schedule, callbacks, variables and the cost of a forward pass."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import final

import attrs
import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callbacks, LoopState, explain_callbacks
from towerpack_callbacks.graph import find_ancestors, reads_variable
from towerpack_inputsource import InputSource

__all__ = ["ForwardCost", "describe_trainable_variables", "describe_training", "forward_cost"]


# Headings of right-aligned columns.
_NUMBERS = ("elements", "FLOPs")


def describe_training(
    trainer: str,
    devices: Sequence[str],
    loop: LoopState,
    source: InputSource | None,
    steps: str,
    callbacks: Callbacks,
) -> str:
    """Returns the text of `Trainer.explain()`.

    Args:
        trainer: the trainer's name.
        devices: the devices of its towers; empty: one device, chosen by TensorFlow.
        loop: the counters.
        source: the input; None without one.
        steps: the way in which steps are run, in whole lines; "" for one by one.
        callbacks: all callbacks, set up.
    """
    where = ", ".join(devices) or "one device"
    status = "none" if source is None else str(source.status())
    return (
        f"{trainer} on {where}, epochs {loop.starting_epoch} to {loop.max_epoch} "
        f"of {loop.steps_per_epoch} steps\n"
        f"input: {status}\n"
        f"{steps}"
        f"callbacks, in the order they run:\n{explain_callbacks(callbacks)}"
    )


def describe_trainable_variables(graph: tf.Graph, cost: tf.Tensor | Sequence[tf.Tensor] | None = None) -> str:
    """Returns a table of the trainable variables: name, shape, number of elements, dtype; and their sum.

    Args:
        graph: the graph. Copies of replicas (`tower1/…`) are omitted.
        cost: the cost of one tower, or a list of its predictions. If given, the table includes the
            floating-point operations of a forward pass for each variable, and the memory of the activations
            that gradients need: for one example if the batch size is unknown, otherwise for one batch.
    """
    spent = None if cost is None else forward_cost([cost] if tf.is_tensor(cost) else cost)
    rows = [["name", "shape", "elements", "dtype"]]
    total = size = 0
    for variable in graph.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES):
        if variable.op.name.startswith("tower"):
            continue
        elements = variable.shape.num_elements() or 0  # 0 also if the shape is unknown
        dtype = variable.dtype.base_dtype
        rows.append([variable.op.name, str(variable.shape), f"{elements:,}", dtype.name])
        total += elements
        size += elements * dtype.size
    count = len(rows) - 1
    if spent is not None:
        rows[0].append("FLOPs")
        for row in rows[1:]:
            row.append(f"{spent.flops.get(row[0], 0):,}")
    summary = f"{count} trainable variables, {total:,} elements, {size / 2**20:.2f} MiB"
    return "\n".join([*_table(rows), summary, *(_costs(spent) if spent is not None else [])])


def _costs(spent: ForwardCost) -> list[str]:
    flops = sum(spent.flops.values())
    return [
        f"forward: {flops:,} FLOPs; {spent.activation_bytes / 2**20:.2f} MiB of activations for gradients"
    ]


def _table(rows: list[list[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = [
        "  ".join(
            cell.rjust(width) if heading in _NUMBERS else cell.ljust(width)
            for cell, width, heading in zip(row, widths, rows[0])
        ).rstrip()
        for row in rows
    ]
    return [lines[0], "-" * max(map(len, lines)), *lines[1:]]


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
