"""Describes a training before it begins: what it will do, and which variables it trains."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow.compat.v1 as tf

from towerpack_callbacks import Callbacks, LoopState, explain_callbacks
from towerpack_inputsource import InputSource

__all__ = ["describe_trainable_variables", "describe_training"]


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
        devices: the devices of its towers; empty: one, chosen by TensorFlow.
        loop: the counters.
        source: the input; None without one.
        steps: how steps are run, in whole lines; "" for one by one.
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


def describe_trainable_variables(graph: tf.Graph) -> str:
    """Returns a table of the trainable variables: name, shape, number of elements, dtype; and their sum.

    Args:
        graph: the graph they are in. Copies of replicas (`tower1/…`) are left out.
    """
    rows = [("name", "shape", "elements", "dtype")]
    total = size = 0
    for variable in graph.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES):
        if variable.op.name.startswith("tower"):
            continue
        elements = variable.shape.num_elements() or 0  # 0, too, where the shape is not known
        dtype = variable.dtype.base_dtype
        rows.append((variable.op.name, str(variable.shape), f"{elements:,}", dtype.name))
        total += elements
        size += elements * dtype.size
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = [
        f"{name:<{widths[0]}}  {shape:<{widths[1]}}  {elements:>{widths[2]}}  {dtype}"
        for name, shape, elements, dtype in rows
    ]
    lines.insert(1, "-" * max(map(len, lines)))
    return (
        "\n".join(lines)
        + f"\n{len(rows) - 1} trainable variables, {total:,} elements, {size / 2**20:.2f} MiB"
    )
