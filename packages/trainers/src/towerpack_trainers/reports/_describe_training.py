"""Describes a training before it begins: its schedule, callbacks and trained variables."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callbacks, LoopState, explain_callbacks
from towerpack_inputsource import InputSource

from ._forward_cost import ForwardCost, forward_cost

__all__ = ["describe_trainable_variables", "describe_training"]

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
