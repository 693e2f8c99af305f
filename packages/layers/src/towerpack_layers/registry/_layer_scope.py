"""The scope of one layer: its variables, its output's name, and the rule that a name is used once."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import tensorflow.compat.v1 as tf

from .._errors import DuplicateLayerError, GraphRequiredError
from ..tower import graph_notes, outermost_graph
from ._layer_variables import copy_variables

__all__ = ["check_finished", "check_graph_mode", "layer_scope", "name_output", "repeating_names"]

_repeats: ContextVar[bool] = ContextVar("towerpack_layers_repeating_names", default=False)


@contextlib.contextmanager
def repeating_names() -> Iterator[None]:
    """Lets layers in this block have the name of another layer, as `tf.variable_scope` lets scopes."""
    token = _repeats.set(True)
    try:
        yield
    finally:
        _repeats.reset(token)


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
    """Opens the variable scope and the name scope `name` for a layer, and yields the variable scope's name.

    A scope counts as used when the layer is built without an error, so a call that failed may be repeated
    with other arguments, unless it has made variables by then. The rule holds for layers with and without
    variables alike: a pooling layer's output is found by name, too.

    Args:
        layer: the kind of layer, for messages.
        name: the layer's name, relative to the enclosing variable scope.

    Raises:
        DuplicateLayerError: the name, or that of one of the layer's variables, is taken already, and
            variables are not being reused here.
    """
    call, notes, graph = f"{layer}({name!r})", graph_notes(), tf.get_default_graph()
    around, reused = graph.get_name_scope(), bool(tf.get_variable_scope().reuse)
    wanted = f"{around}/{name}" if around else name
    place, made = (getattr(graph, "name", ""), wanted), list[str]()
    failed = notes.failed.get(place)
    if not reused and not _repeats.get():
        _check_free(call, name, wanted, failed)
    again = tf.name_scope(f"{wanted}/") if failed is not None else contextlib.nullcontext()
    opened = tf.variable_scope(
        name, custom_getter=_note_variables(call, made), auxiliary_name_scope=failed is None
    )
    with opened as scope, again:
        here = graph.get_name_scope()
        try:
            yield str(scope.name)
        except BaseException:
            if here == wanted:  # not a later use of a layer, whose name scope has a suffix
                notes.failed[place] = (*(failed or ()), *made)
            raise
    notes.failed.pop(place, None)
    notes.scopes.setdefault(scope.name, layer)


def _check_free(call: str, name: str, wanted: str, failed: tuple[str, ...] | None) -> None:
    around = tf.get_variable_scope().name
    scope = f"{around}/{name}" if around else name
    earlier = graph_notes().scopes.get(scope)
    if earlier is not None:
        raise DuplicateLayerError(
            f"{call}: the layer scope {scope!r} is already used, by a {earlier}. Give this layer another "
            f"name; or, to share the variables on purpose, call it inside "
            f"`with tf.variable_scope(tf.get_variable_scope(), reuse=True):`."
        )
    if failed:
        raise DuplicateLayerError(
            f"{call}: an earlier call of this name failed after it had made {', '.join(failed)}. A graph "
            f"keeps its variables: build it anew, or give this layer another name."
        )
    if failed is None and tf.get_default_graph().unique_name(name, mark_as_used=False) != wanted:
        raise DuplicateLayerError(
            f"{call}: the name {wanted!r} is taken in this graph, by an input, another op or a name scope "
            f"(names that differ in case alone count as one), so the output could not be {wanted}/output. "
            f"Give one of the two another name."
        )


def _note_variables(call: str, made: list[str]) -> Callable[..., Any]:
    """Returns a getter of variables that notes those it makes, and makes none under another name."""

    def get(getter: Callable[..., Any], name: str, *args: Any, **kwargs: Any) -> Any:
        graph = outermost_graph()
        with graph.name_scope(None):
            is_free = graph.unique_name(name, mark_as_used=False) == name
        if not is_free and not _is_variable(graph, name):
            raise DuplicateLayerError(
                f"{call}: the variable {name!r} cannot be made, as a name scope or an op has this name. "
                f"Rename the layer, or what has its name."
            )
        variable = getter(name, *args, **kwargs)
        if is_free:
            made.append(name)
        return variable

    return get


def _is_variable(graph: tf.Graph, name: str) -> bool:
    for candidate in (name, f"{name}/part_0"):
        try:
            if graph.get_operation_by_name(candidate).type.startswith("Var"):
                return True
        except KeyError:
            continue
    return False


def name_output(call: str, result: Any) -> Any:
    """Returns a layer's result under the name `output` in the current name scope, if it is one tensor.

    Raises:
        DuplicateLayerError: the layer has given this name to another op.
        TypeError: the result is a generator or a coroutine, whose variables would lie outside of the layer.
    """
    check_finished(call, result)
    if not tf.is_tensor(result) or not hasattr(result, "op"):
        return result
    graph = tf.get_default_graph()
    wanted = f"{graph.get_name_scope()}/output"
    if result.op.name == wanted:
        return result
    if graph.unique_name("output", mark_as_used=False) != wanted:
        if _repeats.get():
            return result
        raise DuplicateLayerError(
            f"{call}: an op inside the layer is named 'output', and is not its result. Rename that op."
        )
    return copy_variables(result, tf.identity(result, "output"))


def check_finished(call: str, result: Any) -> None:
    """Checks that a layer's function has run to its end.

    Raises:
        TypeError: the result is a generator or a coroutine.
    """
    if inspect.isgenerator(result) or inspect.isasyncgen(result) or inspect.iscoroutine(result):
        raise TypeError(
            f"{call} returned a {type(result).__name__}, which would make variables outside of the layer's "
            f"scope. Return a tensor, or a list of tensors."
        )
