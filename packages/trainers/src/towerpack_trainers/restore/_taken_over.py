"""Describes the values other than weights that a new run takes over, such as the learning rate."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

__all__ = ["at_the_start_of_a_run", "describe_taken_over"]

# A predictor restores the same variables, and does not need this line.
_starts_a_run: ContextVar[bool] = ContextVar("towerpack_trainers_starts_a_run", default=False)

# The maximum number of named variables with several elements.
_NAMED = 2


@contextlib.contextmanager
def at_the_start_of_a_run() -> Iterator[None]:
    """Enables `describe_taken_over` for restoring in the block."""
    token = _starts_a_run.set(True)
    try:
        yield
    finally:
        _starts_a_run.reset(token)


def describe_taken_over(
    sess: tf.Session, variables: Mapping[str, tf.Variable], values: Mapping[str, np.ndarray]
) -> str | None:
    """Describes in one line the changed values that are not weights of a layer; None without any.

    Outside of `at_the_start_of_a_run` it returns None.

    These are scalars, such as a learning rate, and the state of an optimizer or an average.

    Args:
        sess: the session with the previous values.
        variables: the variables of the graph, by name.
        values: the values to be assigned, by name.
    """
    if not _starts_a_run.get():
        return None
    names = _of_the_run(sess.graph, variables, values)
    # One at a time: the state of an optimizer takes as much memory as the weights, or twice as much.
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
        f"Taken over besides the weights: {', '.join(parts)}. To keep the initial values of this run, name "
        f"the variables in ignore=[{example}]."
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
