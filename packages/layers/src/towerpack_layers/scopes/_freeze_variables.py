"""Variables that are saved and used but not trained."""

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
    """Prevents the training of variables requested within a `with` block.

    `skip_collection=True` freezes the variables completely and is the usual choice. `stop_gradient=True`
    stops only the gradient through this use of the variable: other uses, and weight decay, still train it;
    and `tf.get_variable` returns a tensor. Both have no effect on non-trainable variables, such as moving
    averages.

    Args:
        stop_gradient: return variables through `tf.stop_gradient`.
        skip_collection: do not add variables to `TRAINABLE_VARIABLES`. They are in `GLOBAL_VARIABLES` and
            `MODEL_VARIABLES`, so checkpoints and exports contain them.

    Raises:
        ScopeError: an argument is not a bool.
        FrozenVariableError: with `skip_collection`, a requested variable was created outside of such a block
            and is trainable.

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
    # With `None`, TensorFlow decides: it trains all variables except those that are aggregated on reading.
    trainable = kwargs.get("trainable")
    on_read = kwargs.get("synchronization") == tf.VariableSynchronization.ON_READ
    return bool(trainable) or (trainable is None and not on_read)


def _not_trained(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Returns the arguments for a variable that is not trained but belongs to the model.

    TensorFlow itself adds the variable to the collection at its creation, for any class of variable, so it is
    added only once even if several towers share it.
    """
    collections = list(kwargs.get("collections") or [tf.GraphKeys.GLOBAL_VARIABLES])
    model = [] if tf.GraphKeys.MODEL_VARIABLES in collections else [tf.GraphKeys.MODEL_VARIABLES]
    return {**kwargs, "trainable": False, "collections": [*collections, *model]}


def _check_frozen(name: str, variable: Any) -> None:
    parts = list(variable) if hasattr(variable, "_get_variable_list") else [variable]
    if any(getattr(part, "trainable", False) for part in parts):
        raise FrozenVariableError(
            f"freeze_variables: the variable {name!r} already exists and is trainable: it was created "
            "outside of a block with skip_collection=True, and can no longer be frozen. Put such a block "
            "around the call that creates it, in every tower."
        )
