"""The scope of one layer: variables, the name of the output, and the check for duplicate names."""

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
    """Allows duplicate layer names in this block, like repeated scopes of `tf.variable_scope`."""
    token = _repeats.set(True)
    try:
        yield
    finally:
        _repeats.reset(token)


def check_graph_mode(call: str) -> None:
    """Checks that a graph is being built: in eager mode, variables of `tf.get_variable` would be lost.

    Args:
        call: the label of the call, for the error.

    Raises:
        GraphRequiredError: TensorFlow executes eagerly.
    """
    if tf.executing_eagerly():
        raise GraphRequiredError(f"{call} builds a graph. Call it inside `with tf.Graph().as_default():`.")


@contextlib.contextmanager
def layer_scope(layer: str, name: str) -> Iterator[str]:
    """Opens the variable scope and the name scope of a layer, and yields the variable scope's name.

    A scope counts as used after the layer is built without an error, so a failed call may be repeated with
    other arguments, unless it has created variables. The rule also applies to layers without variables, since
    code finds the output of a pooling layer by name, too.

    Args:
        layer: the kind of layer, for messages.
        name: the layer's name, relative to the enclosing variable scope.

    Raises:
        DuplicateLayerError: the name of the layer or of one of its variables is already used, and variables
            are not reused here.
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
            if here == wanted:  # not a repeated use of a layer, which has a name scope with a suffix
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
            f"{call}: the layer scope {scope!r} is already used by a {earlier}. Give this layer another "
            "name; or, to share the variables intentionally, call it inside "
            f"`with tf.variable_scope(tf.get_variable_scope(), reuse=True):`."
        )
    if failed:
        raise DuplicateLayerError(
            f"{call}: an earlier call with this name failed after creating {', '.join(failed)}. A graph "
            "keeps its variables: build a new graph, or give this layer another name."
        )
    if failed is None and tf.get_default_graph().unique_name(name, mark_as_used=False) != wanted:
        raise DuplicateLayerError(
            f"{call}: the name {wanted!r} is already used in this graph by an input, another op or a name "
            f"scope (names are case-insensitive), so the output cannot be named {wanted}/output. Rename one "
            "of the two."
        )


def _note_variables(call: str, made: list[str]) -> Callable[..., Any]:
    """Returns a variable getter that records created variables and refuses renamed ones."""

    def get(getter: Callable[..., Any], name: str, *args: Any, **kwargs: Any) -> Any:
        graph = outermost_graph()
        with graph.name_scope(None):
            is_free = graph.unique_name(name, mark_as_used=False) == name
        if not is_free and not _is_variable(graph, name):
            raise DuplicateLayerError(
                f"{call}: the variable {name!r} cannot be created, because a name scope or an op has this "
                "name. Rename the layer, or that scope or op."
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
    """Names a layer's result `output` in the current name scope, if it is a single tensor.

    Raises:
        DuplicateLayerError: the layer uses this name for another op.
        TypeError: the result is a generator or a coroutine, which would create variables outside of the
            layer.
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
            f"{call}: an op inside the layer is named 'output', but is not its result. Rename that op."
        )
    return copy_variables(result, tf.identity(result, "output"))


def check_finished(call: str, result: Any) -> None:
    """Checks that a layer's function is not a generator or coroutine.

    Raises:
        TypeError: the result is a generator or a coroutine.
    """
    if inspect.isgenerator(result) or inspect.isasyncgen(result) or inspect.iscoroutine(result):
        raise TypeError(
            f"{call} returned a {type(result).__name__}, which would create variables outside of the "
            "layer's scope. Return a tensor or a list of tensors."
        )
