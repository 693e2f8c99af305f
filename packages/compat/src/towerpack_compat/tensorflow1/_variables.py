"""Names and handles of variables in sessions, with the meaning of TensorFlow 1's reference variables."""

from __future__ import annotations

import contextlib
from typing import Any

import tensorflow
import tensorflow.compat.v1 as tf
from tensorflow.python.client.session import register_session_run_conversion_functions

from .._errors import NoCounterpartError

__all__ = ["tensor_by_name", "use_values_of_variables"]

_get_tensor_by_name = tf.Graph.get_tensor_by_name


def use_values_of_variables() -> None:
    """Makes sessions return the value of a variable for its name or handle, and refuse to feed variables.

    Variables stay resource variables: their reads and updates have a defined order, which reference variables
    lack. `Graph.get_tensor_by_name` returns the variable itself, which supports assignments and gradients.
    """
    for kind in (str, tf.Tensor, tensorflow.Variable):
        register_session_run_conversion_functions(kind, _fetched, _fed, lambda key: [key])
    tf.Graph.get_tensor_by_name = tensor_by_name


def _fetched(key: Any) -> tuple[list[Any], Any]:
    graph = tf.get_default_graph()  # the session's graph, during this call
    element = graph.as_graph_element(key)
    if _is_handle(element):
        element = graph.as_graph_element(f"{element.op.name}/Read/ReadVariableOp:0")
    if getattr(element, "dtype", None) == tf.resource:
        raise NoCounterpartError(
            f"The session would return the address {element.name!r} of an object, not a value. Fetch the "
            "variable."
        )
    return [element], lambda values: values[0]


def _fed(key: Any, value: Any) -> list[tuple[Any, Any]]:
    element = getattr(key, "handle", key)
    if isinstance(key, str):
        with contextlib.suppress(KeyError, ValueError):  # a session of another graph
            element = tf.get_default_graph().as_graph_element(key)
    if _is_handle(element):
        raise NoCounterpartError(
            f"feed_dict has a value for the variable {element.op.name!r}, which TensorFlow 2 would ignore. "
            "Use `variable.load(value, session)`, or `tf.placeholder_with_default(variable, shape)`."
        )
    return [(key, value)]


def _is_handle(element: Any) -> bool:
    return isinstance(element, tf.Tensor) and element.op.type == "VarHandleOp"


def tensor_by_name(graph: tf.Graph, name: str) -> Any:
    """Returns the tensor or the variable of a name.

    Raises:
        KeyError: the graph has neither.
    """
    tensor = _get_tensor_by_name(graph, name)
    keys = (tf.GraphKeys.GLOBAL_VARIABLES, tf.GraphKeys.LOCAL_VARIABLES) if _is_handle(tensor) else ()
    variables = [each for key in keys for each in graph.get_collection(key)]
    return next((each for each in variables if getattr(each, "handle", None) is tensor), tensor)
