"""What a new run takes over of another one besides weights, such as its learning rate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

__all__ = ["describe_taken_over"]

# So many variables with several numbers are named.
_NAMED = 2


def describe_taken_over(
    sess: tf.Session, variables: Mapping[str, tf.Variable], values: Mapping[str, np.ndarray]
) -> str | None:
    """Returns a line on what gets another value and is no weight of a layer; None if there is nothing.

    These are single numbers, such as a learning rate, and the state of an optimizer or an average.

    Args:
        sess: has the values from before.
        variables: those of the graph, by name.
        values: what is about to be assigned, by name.
    """
    names = _of_the_run(sess.graph, variables, values)
    # Each by itself: the state of an optimizer takes as much memory as the weights, or twice as much.
    before = {name: sess.run(variables[name]) for name in names}
    changed = [name for name in names if not _are_equal(before[name], values[name])]
    if not changed:
        return None
    single = [name for name in changed if np.ndim(values[name]) == 0]
    several = [name for name in changed if name not in single]
    parts = [f"{name} {_text(before[name])} -> {_text(values[name])}" for name in single]
    if several:
        more = f" and {len(several) - _NAMED} more" if len(several) > _NAMED else ""
        parts.append(f"the values of {', '.join(several[:_NAMED])}{more}")
    example = ", ".join(map(repr, [*single, *several][:_NAMED]))
    return (
        f"Taken over besides the weights: {', '.join(parts)}. To keep what this run begins with, name the "
        f"variables in ignore=[{example}]."
    )


def _of_the_run(
    graph: tf.Graph, variables: Mapping[str, tf.Variable], values: Mapping[str, np.ndarray]
) -> list[str]:
    keys = (tf.GraphKeys.TRAINABLE_VARIABLES, tf.GraphKeys.MODEL_VARIABLES)
    owned = {variable.op.name for key in keys for variable in graph.get_collection(key)}
    known = [name for name in values if name in variables and name not in owned]
    return [name for name in known if np.ndim(values[name]) == 0 or name.rpartition("/")[0] in variables]


def _are_equal(one: Any, other: Any) -> bool:
    one, other = np.asarray(one), np.asarray(other)
    return one.shape == other.shape and bool(np.all((one == other) | ((one != one) & (other != other))))


def _text(value: Any) -> str:
    item = np.asarray(value).item()
    return f"{item:.6g}" if isinstance(item, float) else str(item)
