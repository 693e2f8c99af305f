"""Gradients of a cost by variables, held back until the variables may change."""

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
        variables: what to differentiate by.
        optimizer: computes the gradients.
        label: what messages call the cost.

    Returns:
        Pairs of gradient and variable. Variables the cost does not depend on are left out, with a warning.
        The gradients must go through `gate_gradients`, or an exchange that does the same, before updates.

    Raises:
        ModelError: the cost depends on none of the variables.
    """
    # By default TensorFlow lets no gradient go on before all those of the op above are there.
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

    No variable may change while a gradient still reads it. With this between gradients and updates, gradients
    are computed in whatever order finds a core free, which is faster than TensorFlow's own gating.

    Args:
        pairs: gradients and variables.
        after: ops that the updates must wait for as well.

    Returns:
        The same pairs, gated.
    """
    gradients = tf.tuple([gradient for gradient, _ in pairs], control_inputs=list(after) or None)
    return [(gradient, variable) for gradient, (_, variable) in zip(gradients, pairs)]


def reads_of_others(pairs: Pairs, others: Sequence[Pairs]) -> list[tf.Operation]:
    """Finds the ops that read variables for gradients of other costs, and not for these gradients.

    What TensorFlow has read of a resource variable does not change when the variable is updated afterwards.
    So if an update waits for these ops, the other gradients are those of the values before the update; where
    the other gradients are not to be computed, next to nothing is done in vain.

    Args:
        pairs: gradients, and the variables that they are about to update.
        others: the gradients of the other costs.

    Raises:
        ModelError: a variable is a reference variable, of which a read value may change.
    """
    if not others:
        return []
    elsewhere = _ancestors([pair for row in others for pair in row]) - _ancestors(pairs)
    readers = [op for _, variable in pairs for op in _readers(variable) if op in elsewhere]
    return list(dict.fromkeys(readers))


def check_cost(cost: Any, owner: str = "build_graph must return") -> tf.Tensor:
    """Returns `cost` if it is a scalar float tensor.

    Args:
        cost: anything.
        owner: how messages begin.

    Raises:
        ModelError: it is not.
    """
    if not tf.is_tensor(cost):
        raise ModelError(
            f"{owner} the cost, a scalar tensor; received {cost!r} of type {type(cost).__name__}. Other "
            "tensors are found by their names: tf.identity(logits, name=...)."
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
