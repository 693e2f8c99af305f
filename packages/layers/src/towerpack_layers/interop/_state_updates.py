"""New values of a model's states, such as moving averages, computed by one call and read by the next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from .._errors import KerasLayerError
from ..tower import get_current_tower_context, graph_notes

__all__ = ["current_state", "update_states"]


def current_state(variable: Any) -> Any:
    """Returns the variable, or its new value from an earlier call in this tower."""
    update = _last_update(variable)
    return variable if update is None else update.inputs[1]


def update_states(call: str, values: Sequence[tuple[Any, tf.Tensor]]) -> None:
    """Adds ops to `UPDATE_OPS` that assign variables, after those of earlier calls in this tower.

    Args:
        call: the label of the call, for errors.
        values: variables and their new values.

    Raises:
        KerasLayerError: a value is computed in a body of control flow.
    """
    for variable, value in values:
        if value.graph is not tf.get_default_graph():
            raise KerasLayerError(
                f"{call}: the state {variable.op.name!r} is computed within a loop of the model and cannot "
                "be assigned outside of it. Remove the layer that changes it there."
            )
        last = _last_update(variable)
        with tf.control_dependencies([] if last is None else [last]):
            update = variable.assign(value, read_value=False)
        graph_notes().moved[_place(variable)] = update.name
        tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, update)


def _last_update(variable: Any) -> tf.Operation | None:
    name = graph_notes().moved.get(_place(variable))
    return None if name is None else tf.get_default_graph().get_operation_by_name(name)


def _place(variable: Any) -> tuple[str, ...]:
    tower = get_current_tower_context()
    return ("use_keras", variable.name, "" if tower is None else tower.name)
