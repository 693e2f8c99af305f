"""Finds whose data has ended, where a session call fails with `OutOfRangeError`."""

from __future__ import annotations

import re
from collections.abc import Iterable

import tensorflow.compat.v1 as tf

__all__ = ["depend_on", "ended_op"]

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


def depend_on(op: tf.Operation, targets: Iterable[tf.Tensor | tf.Operation]) -> bool:
    """Returns whether any of the targets depends on an op, or is that op itself."""
    waiting = [target if isinstance(target, tf.Operation) else target.op for target in targets]
    seen: set[tf.Operation] = set()
    while waiting:
        current = waiting.pop()
        if current is op:
            return True
        if current not in seen:
            seen.add(current)
            waiting += [*(tensor.op for tensor in current.inputs), *current.control_inputs]
    return False


def _original(name: str, graph: tf.Graph) -> tf.Operation | None:
    """Returns the op of that name; for a copy in a scope of its own, such as "step/", the one it copies."""
    while name:
        try:
            return graph.get_operation_by_name(name)
        except KeyError:
            _, _, name = name.partition("/")
    return None
