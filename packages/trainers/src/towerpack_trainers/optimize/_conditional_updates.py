"""Updates that happen only in some steps, and the variables that select these steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from ._gradient_values import Pairs, check_pairs

__all__ = [
    "given_pairs",
    "in_branch",
    "outermost_graph",
    "require_resource_variables",
    "run_if",
    "state_variable",
]


def given_pairs(owner: str, grads_and_vars: Sequence[tuple[Any, tf.Variable]]) -> Pairs:
    """Returns the pairs that have a gradient.

    Raises:
        TypeError: `grads_and_vars` is not a list of pairs.
        ValueError: no pair has a gradient.
    """
    pairs = check_pairs(f"{owner}.apply_gradients", grads_and_vars)
    given = [(gradient, variable) for gradient, variable in pairs if gradient is not None]
    if not given:
        raise ValueError(f"{owner}.apply_gradients received no gradient of any variable; nothing to train.")
    return given


def require_resource_variables(owner: str, pairs: Pairs) -> None:
    """Checks that variables support conditional updates.

    Raises:
        ValueError: a variable is a reference variable.
    """
    for _, variable in pairs:
        if not hasattr(variable, "handle"):
            raise ValueError(
                f"{owner} updates variables conditionally, which TensorFlow supports only for resource "
                f"variables; {variable.op.name!r} is not one. Do not pass use_resource=False, and do not "
                "call disable_resource_variables() or disable_v2_behavior()."
            )


def state_variable(name: str, value: float, dtype: tf.DType) -> tf.Variable:
    """Makes a scalar global variable, which checkpoints include, outside of any condition."""
    with tf.init_scope(), tf.control_dependencies(None):
        return tf.get_variable(
            name, [], dtype, tf.constant_initializer(value), trainable=False, use_resource=True
        )


def run_if(predicate: tf.Tensor, build: Callable[[], Any]) -> tf.Operation:
    """Returns an op that runs the op or tensor made by `build` if `predicate` is true."""

    def branch() -> tf.Tensor:
        with tf.control_dependencies([build()]):
            return tf.constant(True)

    done = tf.cond(predicate, branch, lambda: tf.constant(False))
    # Optimizers put their op here; this one belongs to the branch, and cannot be run from outside.
    updates = tf.get_collection_ref(tf.GraphKeys.TRAIN_OP)
    updates[:] = [op for op in updates if op.graph is done.graph]
    return done.op


def in_branch() -> bool:
    """Returns whether ops are currently added to a branch of a condition, or to a loop."""
    return tf.get_default_graph() is not outermost_graph()


def outermost_graph() -> tf.Graph:
    """Returns the trained graph, even inside a branch of a condition, which is a separate graph."""
    with tf.init_scope():
        return tf.get_default_graph()
