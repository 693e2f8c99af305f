"""Finds the exhausted data of a session call that failed with `OutOfRangeError`."""

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
    """Returns the op in which a session call failed; None if the error does not name it.

    Args:
        error: the error.
        graph: the graph of the call. For a copy of an op, the original is returned.
    """
    if error.op is not None:
        return _original(error.op.name, graph)
    named = [_original(name, graph) for name in _NODE.findall(error.message or "")]
    return next((op for op in named if op is not None), None)


def ended_apart_from(
    targets: Iterable[tf.Tensor | tf.Operation], error: tf.errors.OpError, graph: tf.Graph
) -> tf.Operation | None:
    """Returns the op in which a session call failed, if no target depends on it, or None.

    Args:
        targets: tensors and ops.
        error: the error.
        graph: the graph of the call.

    Returns:
        The op; also None if the error does not name it.
    """
    op = ended_op(error, graph)
    return None if op is None or op in find_ancestors(targets) else op


def _original(name: str, graph: tf.Graph) -> tf.Operation | None:
    """Returns the op of the given name; for a copy in a separate scope, such as "step/", the original op."""
    scope, _, inside = name.partition("/")
    if re.fullmatch(rf"{LAST_STEP}(_\d+)?", scope):  # this copy is in the same graph
        name = inside
    while name:
        try:
            return graph.get_operation_by_name(name)
        except KeyError:
            _, _, name = name.partition("/")
    return None
