"""A table of the trainable variables."""

from __future__ import annotations

import tensorflow.compat.v1 as tf

__all__ = ["describe_trainable_variables"]


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
