"""Gradients of a cost with respect to variables, held back until the variables may change."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from towerpack_callbacks import find_ancestors

from .._errors import ModelError
from ._tower import Tower

__all__ = ["Pairs", "check_cost", "compute_gradients", "gate_gradients", "reads_of_others"]

_log = logging.getLogger("towerpack_trainers")

Pairs = Sequence[tuple[Any, tf.Variable]]
"""Gradients, dense or `tf.IndexedSlices`, each with its variable."""


def compute_gradients(
    tower: Tower,
    cost: tf.Tensor,
    variables: Sequence[tf.Variable],
    optimizer: tf.train.Optimizer,
    label: str = "The cost",
) -> list[tuple[Any, tf.Variable]]:
    """Computes the gradients of a cost of one tower.

    Args:
        tower: a training tower.
        cost: a scalar of that tower.
        variables: the variables to differentiate with respect to.
        optimizer: computes the gradients.
        label: the name of the cost in messages.

    Returns:
        Pairs of gradient and variable. Variables that the cost does not depend on are dropped, with a
        warning. Before updates, the gradients must pass `gate_gradients`, or an exchange with the same
        effect.

    Raises:
        ModelError: the cost depends on none of the variables.
    """
    # By default, TensorFlow blocks every gradient until all those of the op above are available.
    gating = tf.train.Optimizer.GATE_NONE
    with tower.graph.as_default(), tf.name_scope(f"{tower.context.name}/" if tower.context.name else None):
        pairs = optimizer.compute_gradients(cost, list(variables), gate_gradients=gating)
    unused = [variable.op.name for gradient, variable in pairs if gradient is None]
    if unused and not tower.context.index:
        _log.warning("%s does not depend on: %s. They are not trained.", label, ", ".join(unused))
    used = [(gradient, variable) for gradient, variable in pairs if gradient is not None]
    if not used:
        raise ModelError(f"{label} depends on no trainable variable, so there is nothing to train.")
    return used


def gate_gradients(pairs: Pairs, after: Sequence[tf.Operation] = ()) -> list[tuple[Any, tf.Variable]]:
    """Holds gradients back until all of them are computed.

    No variable may change while a gradient still reads it. With this gate between gradients and updates,
    gradients are computed in any order, as cores become free, which is faster than TensorFlow's own gating.

    Args:
        pairs: gradients and variables.
        after: further ops that the updates must wait for.

    Returns:
        The same pairs, gated.
    """
    gradients = tf.tuple([gradient for gradient, _ in pairs], control_inputs=list(after) or None)
    return [(gradient, variable) for gradient, (_, variable) in zip(gradients, pairs)]


def reads_of_others(pairs: Pairs, others: Sequence[Pairs]) -> list[tf.Operation]:
    """Finds the ops that read variables for gradients of other costs, but not for these gradients.

    A value that TensorFlow has read from a resource variable does not change when the variable is updated
    later. So if an update waits for these ops, the other gradients use the values from before the update; if
    the other gradients are not needed, almost no work is wasted.

    Args:
        pairs: gradients, and the variables that they are about to update.
        others: the gradients of the other costs.

    Raises:
        ModelError: a variable is a reference variable, so a value read from it may change.
    """
    if not others:
        return []
    elsewhere = _ancestors([pair for row in others for pair in row]) - _ancestors(pairs)
    readers = [op for _, variable in pairs for op in _readers(variable) if op in elsewhere]
    return list(dict.fromkeys(readers))


def check_cost(cost: Any, owner: str = "build_graph must return") -> tf.Tensor:
    """Returns `cost` if it is a scalar float tensor.

    Args:
        cost: any object.
        owner: the beginning of messages.

    Raises:
        ModelError: `cost` has another type, shape or dtype.
    """
    if not tf.is_tensor(cost):
        raise ModelError(
            f"{owner} the cost, a scalar tensor; received {cost!r} of type {type(cost).__name__}. Make other "
            "tensors available by name: tf.identity(logits, name=...)."
        )
    if cost.shape.rank != 0:
        raise ModelError(
            f"{owner} a scalar cost; received {cost.name!r} of shape {cost.shape}. "
            "Reduce it, for example by tf.reduce_mean."
        )
    if not cost.dtype.is_floating:
        raise ModelError(
            f"The cost {cost.name!r} has dtype {cost.dtype.name}; expected a float, which has gradients."
        )
    if cost.dtype.size < 4:
        raise ModelError(
            f"The cost {cost.name!r} has dtype {cost.dtype.name}, too coarse for sums over a batch. Compute "
            "the loss in float32, for example from tf.cast(logits, tf.float32)."
        )
    return cost


def _ancestors(pairs: Pairs) -> set[tf.Operation]:
    """Returns the ops that gradients depend on."""
    return find_ancestors(tf.nest.flatten([gradient for gradient, _ in pairs], expand_composites=True))


def _readers(variable: tf.Variable) -> list[tf.Operation]:
    """Returns the ops that take a variable's handle."""
    if not hasattr(variable, "handle"):
        raise ModelError(
            f"Variable {variable.op.name!r} is a reference variable. Several objectives need resource "
            "variables: make it with use_resource=True."
        )
    readers: list[tf.Operation] = []
    waiting = [variable.handle]
    while waiting:
        for op in waiting.pop().consumers():
            readers.append(op)
            waiting += [output for output in op.outputs if output.dtype == tf.resource]  # as Identity has
    return readers
