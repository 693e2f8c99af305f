"""Objectives: a cost, the variables that it trains, and the optimizer; and the gradients of the cost."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, final

import attrs
import tensorflow.compat.v1 as tf

from towerpack_callbacks import find_ancestors

from .._argument_checks import make_optimizer
from .._errors import ModelError
from ._tower import Tower

__all__ = [
    "MakeOptimizer",
    "Objective",
    "Pairs",
    "check_cost",
    "choose_variables",
    "compute_gradients",
    "gate_gradients",
    "read_objectives",
    "reads_of_others",
    "warn_of_unused_costs",
]

_log = logging.getLogger("towerpack_trainers")


MakeOptimizer = Callable[[], tf.train.Optimizer]


def _as_variables(variables: Any) -> Any:
    return tuple(variables) if isinstance(variables, (list, tuple)) else variables


def _check_objective_cost(objective: Objective, attribute: attrs.Attribute[Any], value: Any) -> None:
    check_cost(value, "Objective(cost=...) takes")


def _check_variables(objective: Objective, attribute: attrs.Attribute[Any], value: Any) -> None:
    if value is None:
        return
    if not isinstance(value, tuple) or not all(isinstance(item, tf.compat.v2.Variable) for item in value):
        raise ModelError(
            f"Objective(variables=...) received {value!r}; expected a list of variables, such as "
            'tf.trainable_variables("generator"), or None for all trainable variables of the tower.'
        )
    if not value:
        raise ModelError(
            "Objective(variables=...) received no variable, so there is nothing to train. Does the scope in "
            "the look-up match their names? None selects all trainable variables of the tower."
        )


def _check_optimizer(objective: Objective, attribute: attrs.Attribute[Any], value: Any) -> None:
    if not callable(value):
        make_optimizer(value)


@final
@attrs.frozen(eq=False)
class Objective:
    """A cost, the variables that it trains, and the optimizer that trains them.

    A tower function returns one, or a list of them, for each tower; see `Builder.build`. The objectives of
    the first tower determine the variables, which are found by name in the others, and the optimizers, which
    serve all towers. An optimizer made in the tower function would be used only for the first tower: pass a
    function that makes it instead.

    Args:
        cost: a scalar float tensor of the tower.
        variables: the trainable variables of the objective; None for all those of the tower.
        optimizer: a `tf.train.Optimizer`; or a function that makes it, called once.

    Raises:
        ModelError: the cost is not a scalar float tensor, or there is no variable.
        TypeError: the optimizer is not a TensorFlow optimizer.

    Example:
        ```python
        def build_towers(real):
            ...
            critic, generator = tf.trainable_variables("critic"), tf.trainable_variables("generator")
            return [
                Objective(critic_cost, critic, lambda: tf.train.AdamOptimizer(1e-4)),
                Objective(generator_cost, generator, lambda: tf.train.AdamOptimizer(1e-4)),
            ]
        ```
    """

    cost: tf.Tensor = attrs.field(validator=_check_objective_cost)
    variables: Sequence[tf.Variable] | None = attrs.field(converter=_as_variables, validator=_check_variables)
    optimizer: tf.train.Optimizer | MakeOptimizer = attrs.field(validator=_check_optimizer)


def read_objectives(
    output: Any, optimizer: tf.train.Optimizer | MakeOptimizer | None = None
) -> list[Objective]:
    """Converts the return value of a tower function to a list of objectives.

    Args:
        output: an objective or a list of them; with an optimizer, the cost.
        optimizer: trains all variables of the tower with the cost.

    Raises:
        ModelError: `output` has another type.
    """
    objectives = [output] if isinstance(output, Objective) else output
    given = (
        isinstance(objectives, (list, tuple))
        and len(objectives) > 0
        and all(isinstance(objective, Objective) for objective in objectives)
    )
    if optimizer is None:
        if not given:
            raise ModelError(
                "Without optimizer=, a tower function must return an Objective or a list of them; received "
                f"{output!r} of type {type(output).__name__}. Write Objective(cost, variables, optimizer)."
            )
        return list(objectives)
    if given:
        raise ModelError(
            "The tower function returned objectives, which have their own optimizers, but one cost was "
            "expected. Remove optimizer= from build(); trainers of one cost, such as SimpleTrainer, cannot "
            "train objectives."
        )
    if output is None:
        raise ModelError(
            "build_graph returned None for a training tower; it must return the cost, a scalar tensor. "
            "Is a `return cost` missing?"
        )
    return [Objective(check_cost(output), None, optimizer)]


def choose_variables(objective: Objective, tower: Tower) -> Sequence[tf.Variable]:
    """Returns the variables of a tower that an objective of the first tower trains.

    Raises:
        ModelError: the tower has no such trainable variable; the message names it.
    """
    if objective.variables is None:
        return tower.trainable_variables
    prefix = f"{tower.context.variable_scope}/"
    by_name = {variable.op.name.removeprefix(prefix): variable for variable in tower.trainable_variables}
    names = [variable.op.name for variable in objective.variables]
    missing = [name for name in names if name not in by_name]
    if missing:
        raise ModelError(
            f"Objective(variables=...) names {', '.join(missing)}, which tower {tower.context.index} does not"
            f" have among its trainable variables: {', '.join(by_name) or 'none'}."
        )
    return [by_name[name] for name in names]


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


_SHOWN = 8
# tf.get_variable makes the cost of the variable "fc/W" in the name scope "fc/W/Regularizer".
_OF_A_VARIABLE = "/Regularizer/"


def warn_of_unused_costs(costs: Sequence[tf.Tensor]) -> None:
    """Warns about collected regularization costs that no cost of the model depends on.

    Layers collect the costs of their regularizers in `tf.GraphKeys.REGULARIZATION_LOSSES`. They count only
    if the model adds them to its cost.

    Args:
        costs: the training costs of the model.
    """
    collected = tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)
    if not collected:
        return
    used = {op.name for op in find_ancestors(costs)}
    # Collected costs of tf.get_variable are built again, in the same name scope, at each use.
    places = {_place(name) for name in used if _OF_A_VARIABLE in name}
    names = [cost.op.name for cost in collected if hasattr(cost, "op")]
    unused = [_place(name) for name in names if name not in used and _place(name) not in places]
    if not unused:
        return
    unused = list(dict.fromkeys(unused))
    more = f" and {len(unused) - _SHOWN} more" if len(unused) > _SHOWN else ""
    _log.warning(
        "These regularizers have no effect, since the cost does not depend on them: %s%s. Add "
        "towerpack_layers.regularize_cost_from_collection() to the cost, or remove the regularizers.",
        ", ".join(unused[:_SHOWN]),
        more,
    )


def _place(name: str) -> str:
    """Returns the variable of a regularization op's name; otherwise the name itself."""
    return name.partition(_OF_A_VARIABLE)[0]
