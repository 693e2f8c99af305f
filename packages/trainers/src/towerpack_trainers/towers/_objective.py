"""Objectives: a cost, the variables that it trains, and the optimizer that trains them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import attrs
import tensorflow.compat.v1 as tf

from .._argument_checks import make_optimizer
from .._errors import ModelError
from ._cost_gradients import check_cost
from ._tower import Tower

__all__ = ["MakeOptimizer", "Objective", "choose_variables", "read_objectives"]

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
