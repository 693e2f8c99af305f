"""Finds whose data has ended, where a session call fails with `OutOfRangeError`."""

from __future__ import annotations

import re
from collections.abc import Iterable

import tensorflow.compat.v1 as tf

from towerpack_callbacks import find_ancestors

__all__ = ["LAST_STEP", "ended_apart_from", "ended_op"]

LAST_STEP = "last_step"
"""The name scope of a step's copy that follows other steps in the same session call."""

_NODE = re.compile(r"\{\{node ([^}]+)\}\}")


def ended_op(error: tf.errors.OpError, graph: tf.Graph) -> tf.Operation | None:
    """Returns the op that a session call failed in; None if the error does not tell.

    Args:
        error: the error.
        graph: what was run. For a copy of an op, the original is returned.
    """
    if error.op is not None:
        return _original(error.op.name, graph)
    named = [_original(name, graph) for name in _NODE.findall(error.message or "")]
    return next((op for op in named if op is not None), None)


def ended_apart_from(
    targets: Iterable[tf.Tensor | tf.Operation], error: tf.errors.OpError, graph: tf.Graph
) -> tf.Operation | None:
    """Returns the op that a session call failed in, if no target depends on it, or None.

    Args:
        targets: tensors and ops.
        error: the error.
        graph: what was run.

    Returns:
        The op; also None if the error does not tell.
    """
    op = ended_op(error, graph)
    return None if op is None or op in find_ancestors(targets) else op


def _original(name: str, graph: tf.Graph) -> tf.Operation | None:
    """Returns the op of that name; for a copy in a scope of its own, such as "step/", the one it copies."""
    scope, _, inside = name.partition("/")
    if re.fullmatch(rf"{LAST_STEP}(_\d+)?", scope):  # this copy is in the graph, too
        name = inside
    while name:
        try:
            return graph.get_operation_by_name(name)
        except KeyError:
            _, _, name = name.partition("/")
    return None
