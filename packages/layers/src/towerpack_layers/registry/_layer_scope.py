"""The scope of one layer: its variables, its output's name, and the rule that a name is used once."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow.compat.v1 as tf

from .._errors import DuplicateLayerError, GraphRequiredError
from ..tower import get_current_tower_context, graph_notes
from ._layer_variables import copy_variables

__all__ = ["check_graph_mode", "layer_scope", "log_shapes", "name_output"]

_log = logging.getLogger("towerpack_layers")


def check_graph_mode(call: str) -> None:
    """Checks that a graph is being built: in eager mode, `tf.get_variable` makes variables that get lost.

    Args:
        call: the label of the call, for the error.

    Raises:
        GraphRequiredError: TensorFlow executes eagerly.
    """
    if tf.executing_eagerly():
        raise GraphRequiredError(f"{call} builds a graph. Call it inside `with tf.Graph().as_default():`.")


@contextlib.contextmanager
def layer_scope(layer: str, name: str) -> Iterator[str]:
    """Opens the variable scope `name` for a layer and yields the scope's full name.

    A scope counts as used when the layer is built without an error, so a call that failed may be repeated
    with other arguments. The rule holds for layers with and without variables alike: a pooling layer's output
    is found by name, too.

    Args:
        layer: the kind of layer, for messages.
        name: the layer's name, relative to the enclosing variable scope.

    Raises:
        DuplicateLayerError: the scope belongs to an earlier layer, and variables are not being reused here.
    """
    with tf.variable_scope(name) as scope:
        taken = graph_notes().scopes
        if scope.name in taken and not scope.reuse:
            raise DuplicateLayerError(
                f"{layer}({name!r}): the layer scope {scope.name!r} is already used, by a "
                f"{taken[scope.name]}. Give this layer another name; or, to share the variables on purpose, "
                f"call it inside `with tf.variable_scope(tf.get_variable_scope(), reuse=True):`."
            )
        yield str(scope.name)
    taken.setdefault(scope.name, layer)


def name_output(result: Any) -> Any:
    """Returns a layer's result under the name `output` in the current name scope, if it is one tensor."""
    if not tf.is_tensor(result) or not hasattr(result, "op"):
        return result
    if result.op.name == f"{tf.get_default_graph().get_name_scope()}/output":
        return result
    return copy_variables(result, tf.identity(result, "output"))


def log_shapes(scope: str, inputs: Any, outputs: Any) -> None:
    """Logs the shapes of a layer's input and output, once for each layer of a graph."""
    tower = get_current_tower_context()
    if tower is not None and tower.index > 0:
        return
    if graph_notes().first_time("shape", scope):
        _log.info("%s: %s -> %s", scope, _shapes(inputs), _shapes(outputs))


def _shapes(value: Any) -> str:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(_shapes, value))
    shape = getattr(value, "shape", None)
    return type(value).__name__ if shape is None else str(tf.TensorShape(shape))
