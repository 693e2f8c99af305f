"""Checks what a trainer is given to run at each step."""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf

from .._errors import ConfigError, TrainerStateError

__all__ = ["as_train_op", "missing_train_op"]


def as_train_op(value: Any, graph: tf.Graph) -> tf.Operation:
    """Returns the op of `value`, which is one of a trainer's graph unless that graph is empty.

    Args:
        value: an op, or a tensor of a graph.
        graph: what the trainer has built.

    Raises:
        TypeError: `value` is neither.
        ConfigError: the op is in another graph than the one that the trainer has built.
    """
    op = value if isinstance(value, tf.Operation) else getattr(value, "op", value)
    if not isinstance(op, tf.Operation):
        raise TypeError(f"train_op must be a TensorFlow op of a graph, received {op!r}.")
    if op.graph is not graph and graph.get_operations():
        raise ConfigError(f"train_op {op.name!r} is not in the graph this trainer has built.")
    return op


def missing_train_op(trainer: str) -> TrainerStateError:
    """Returns the error of a trainer of this name that has nothing to run."""
    return TrainerStateError(
        f"{trainer} has no train_op. Set trainer.train_op, or override _setup() or run_step()."
    )
