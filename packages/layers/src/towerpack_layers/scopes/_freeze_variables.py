"""Variables that are made, saved and computed with, and not trained."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import tensorflow.compat.v1 as tf

from .._errors import FrozenVariableError, ScopeError
from ._variable_getters import custom_getter_scope, name_scope_of_layer

__all__ = ["freeze_variables"]


def freeze_variables(
    stop_gradient: bool = True, skip_collection: bool = False
) -> contextlib.AbstractContextManager[None]:
    """Keeps variables that are asked for within a `with` block from being trained.

    `skip_collection=True` freezes altogether, and is what is usually wanted. `stop_gradient=True` stops the
    gradient through this use of the variable alone: other uses, and a weight decay, still train it; and
    `tf.get_variable` returns a tensor. Variables that do not train anyway, such as moving averages, are left
    alone by both.

    Args:
        stop_gradient: return variables through `tf.stop_gradient`.
        skip_collection: make variables that are not in `TRAINABLE_VARIABLES`. They are in
            `GLOBAL_VARIABLES` and `MODEL_VARIABLES`, so checkpoints and exports have them.

    Raises:
        ScopeError: an argument is no bool.
        FrozenVariableError: with `skip_collection`, when a variable is asked for that was made outside of
            such a block and trains.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import FullyConnected, freeze_variables
        >>> with tf.Graph().as_default():
        ...     with freeze_variables(stop_gradient=False, skip_collection=True):
        ...         x = FullyConnected("fc0", tf.ones([1, 2]), 3)
        ...     out = FullyConnected("fc1", x, 1)
        ...     [v.name for v in tf.trainable_variables()], [v.name for v in tf.model_variables()]
        (['fc1/W:0', 'fc1/b:0'], ['fc0/W:0', 'fc0/b:0'])
    """
    for argument, value in (("stop_gradient", stop_gradient), ("skip_collection", skip_collection)):
        if not isinstance(value, bool):
            raise ScopeError(f"freeze_variables: {argument} must be True or False, received {value!r}.")

    def get(getter: Callable[..., Any], name: str, *args: Any, **kwargs: Any) -> Any:
        if not _would_train(kwargs):
            return getter(name, *args, **kwargs)
        if skip_collection:
            variable = getter(name, *args, **_not_trained(kwargs))
            _check_frozen(name, variable)
        else:
            variable = getter(name, *args, **kwargs)
        if not stop_gradient:
            return variable
        with name_scope_of_layer():
            return tf.stop_gradient(variable, name=f"{name.rpartition('/')[2]}_frozen")

    return custom_getter_scope(get)


def _would_train(kwargs: dict[str, Any]) -> bool:
    # `None` leaves it to TensorFlow, which trains all variables but those that are aggregated on reading.
    trainable = kwargs.get("trainable")
    on_read = kwargs.get("synchronization") == tf.VariableSynchronization.ON_READ
    return bool(trainable) or (trainable is None and not on_read)


def _not_trained(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Returns the arguments for a variable that is not trained, and part of the model nevertheless.

    TensorFlow itself adds it to the collection when it is made, whatever its class, and so only once,
    however many towers share it.
    """
    collections = list(kwargs.get("collections") or [tf.GraphKeys.GLOBAL_VARIABLES])
    model = [] if tf.GraphKeys.MODEL_VARIABLES in collections else [tf.GraphKeys.MODEL_VARIABLES]
    return {**kwargs, "trainable": False, "collections": [*collections, *model]}


def _check_frozen(name: str, variable: Any) -> None:
    parts = list(variable) if hasattr(variable, "_get_variable_list") else [variable]
    if any(getattr(part, "trainable", False) for part in parts):
        raise FrozenVariableError(
            f"freeze_variables: the variable {name!r} exists already, and it is trainable: it was made "
            f"outside of a block with skip_collection=True, and cannot be frozen any more. Put such a block "
            f"around the call that makes it, in every tower."
        )
