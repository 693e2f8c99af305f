"""Context managers that change the results or the names of `tf.get_variable`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import tensorflow.compat.v1 as tf

from .._errors import ScopeError
from ..registry import check_graph_mode

__all__ = [
    "custom_getter_scope",
    "name_scope_of_layer",
    "remap_variables",
    "rename_get_variable",
    "rename_tflayer_get_variable",
]

_NAMES_OF_TF_LAYERS = {
    "kernel": "W",
    "bias": "b",
    "moving_mean": "mean/EMA",
    "moving_variance": "variance/EMA",
}


@contextlib.contextmanager
def custom_getter_scope(custom_getter: Callable[..., Any]) -> Iterator[None]:
    """Calls a custom getter for each `tf.get_variable` within a `with` block.

    The variable scope and the name scope are unchanged. With nested getters, the inner one is called first,
    with the outer one as its `getter`.

    Args:
        custom_getter: called as `custom_getter(getter, name, *args, **kwargs)`; creates the variable by
            `getter(name, *args, **kwargs)`, and returns the result for `tf.get_variable`.

    Raises:
        ScopeError: `custom_getter` is not callable.
        GraphRequiredError: TensorFlow executes eagerly.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import FullyConnected, custom_getter_scope
        >>> def in_float64(getter, name, *args, **kwargs):
        ...     return tf.cast(getter(name, *args, **{**kwargs, "dtype": tf.float64}), tf.float32)
        >>> with tf.Graph().as_default(), custom_getter_scope(in_float64):
        ...     out = FullyConnected("fc", tf.ones([1, 2]), 3)
        ...     [v.dtype.base_dtype.name for v in tf.trainable_variables()]
        ['float64', 'float64']
    """
    _check_callable("custom_getter_scope", "custom_getter", custom_getter)
    check_graph_mode("custom_getter_scope")
    with tf.variable_scope(tf.get_variable_scope(), custom_getter=custom_getter, auxiliary_name_scope=False):
        yield


def remap_variables(fn: Callable[[Any], Any]) -> contextlib.AbstractContextManager[None]:
    """Replaces each variable requested within a `with` block by a function of it.

    The variables are created, trained and saved as usual; layers compute with the results of the function.
    The function receives all variables, including moving averages: return these unchanged, since layers
    assign to them.

    Args:
        fn: takes a variable, and returns the tensor to compute with, or the variable.

    Raises:
        ScopeError: `fn` is not callable; or, when a variable is requested, `fn` returns `None`.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import FullyConnected, remap_variables
        >>> def binarize(variable):
        ...     return tf.sign(variable) if variable.op.name.endswith("/W") else variable
        >>> with tf.Graph().as_default(), remap_variables(binarize):
        ...     out = FullyConnected("fc", tf.ones([1, 2]), 3)
        ...     out.variables.W.op.type, [v.name for v in tf.trainable_variables()]
        ('Sign', ['fc/W:0', 'fc/b:0'])
    """
    _check_callable("remap_variables", "fn", fn)

    def get(getter: Callable[..., Any], name: str, *args: Any, **kwargs: Any) -> Any:
        variable = getter(name, *args, **kwargs)
        with name_scope_of_layer():
            mapped = fn(variable)
        if mapped is None:
            raise ScopeError(
                f"remap_variables: fn returned None for the variable {name!r}. Return a tensor, or the "
                "variable itself to keep it unchanged."
            )
        return mapped

    return custom_getter_scope(get)


def rename_get_variable(mapping: Mapping[str, str]) -> contextlib.AbstractContextManager[None]:
    """Renames variables requested within a `with` block.

    Args:
        mapping: maps last parts of variable names to new ones: with `{"kernel": "W"}`, `fc/kernel` becomes
            `fc/W`. All other names are unchanged.

    Raises:
        ScopeError: `mapping` is not a dictionary from names to names.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import rename_get_variable
        >>> with tf.Graph().as_default(), rename_get_variable({"kernel": "W"}), tf.variable_scope("fc"):
        ...     tf.get_variable("kernel", [2, 3]).name
        'fc/W:0'
    """
    names = _check_mapping(mapping)

    def get(getter: Callable[..., Any], name: str, *args: Any, **kwargs: Any) -> Any:
        scope, slash, last = name.rpartition("/")
        return getter(f"{scope}{slash}{names.get(last, last)}", *args, **kwargs)

    return custom_getter_scope(get)


def rename_tflayer_get_variable() -> contextlib.AbstractContextManager[None]:
    """Renames variables of `tf.layers` within a `with` block to the names used by this wheel's layers.

    It calls `rename_get_variable` to rename `kernel`, `bias`, `moving_mean` and `moving_variance` to `W`,
    `b`, `mean/EMA` and `variance/EMA`.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_layers import rename_tflayer_get_variable
        >>> with tf.Graph().as_default(), rename_tflayer_get_variable():
        ...     tf.get_variable("bn/moving_mean", [3]).name
        'bn/mean/EMA:0'
    """
    return rename_get_variable(_NAMES_OF_TF_LAYERS)


def name_scope_of_layer() -> contextlib.AbstractContextManager[Any]:
    """Opens the name scope of the current variable scope, for ops created by a getter.

    TensorFlow calls getters outside of any name scope, so that all towers find variables by the same name.
    """
    scope: contextlib.AbstractContextManager[Any] = tf.name_scope(tf.get_variable_scope().original_name_scope)
    return scope


def _check_callable(call: str, argument: str, function: object) -> None:
    if not callable(function):
        raise ScopeError(f"{call}: {argument} must be a function, received {function!r}.")


def _check_mapping(mapping: Mapping[str, str]) -> dict[str, str]:
    """Returns a copy of a mapping of names."""
    names = dict(mapping) if isinstance(mapping, Mapping) else {"": ""}
    for old, new in names.items():
        is_name = isinstance(old, str) and isinstance(new, str) and old and new
        if not is_name or "/" in old or new.startswith("/") or new.endswith("/"):
            raise ScopeError(
                f"rename_get_variable: mapping must be a dictionary from the last part of a variable's name "
                f"to its new name, such as {{'kernel': 'W'}}, received {mapping!r}."
            )
    return names
