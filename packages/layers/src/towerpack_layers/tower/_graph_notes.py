"""Data stored per graph: the layer scopes in use, the lines already logged, and more.

The data live as long as their graph, and graphs share none. A graph collection would be the natural place,
but TensorFlow warns about each collection that it cannot write to a meta graph.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, final

import attrs
import tensorflow.compat.v1 as tf

__all__ = [
    "GraphNotes",
    "graph_notes",
    "in_nested_graph",
    "outermost_graph",
    "place_of_body",
    "shared_by_towers",
]


@final
@attrs.define(eq=False)
class GraphNotes:
    """The data of one graph.

    Args:
        scopes: the kind of layer by full variable-scope name, for layers built without reuse.
        failed: the variables created by failed layer calls, by graph and name scope.
        logged: keys of the lines logged so far.
        costs_of_towers: names of the regularization losses added in towers that have been left.
        shared: the names of tensors used by several towers, by purpose and place.
        moved: the name of the last op that moves a moving average, by place. An op itself would keep the
            graph alive.
        name_scopes: the full names of reopened name scopes, by graph and name.
        shared_calls: functions with shared variables, each with the variable scopes of its calls.
        scoped_calls: the default arguments of layer calls, by label; as text, for the same reason.
    """

    scopes: dict[str, str] = attrs.field(factory=dict)
    failed: dict[tuple[str, str], tuple[str, ...]] = attrs.field(factory=dict)
    logged: set[tuple[str, str]] = attrs.field(factory=set)
    costs_of_towers: set[str] = attrs.field(factory=set)
    shared: dict[tuple[str, ...], list[str]] = attrs.field(factory=dict)
    moved: dict[tuple[str, ...], str] = attrs.field(factory=dict)
    name_scopes: dict[tuple[str, str], str] = attrs.field(factory=dict)
    shared_calls: set[tuple[object, str]] = attrs.field(factory=set)
    scoped_calls: dict[str, Any] = attrs.field(factory=dict)

    def first_time(self, topic: str, key: str) -> bool:
        """Returns whether this is the first call for `topic` and `key`."""
        before = len(self.logged)
        self.logged.add((topic, key))
        return len(self.logged) > before


@final
class _Notebook:
    """The data of all live graphs."""

    def __init__(self) -> None:
        self._notes: weakref.WeakKeyDictionary[tf.Graph, GraphNotes] = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()

    def of(self, graph: tf.Graph) -> GraphNotes:
        with self._lock:
            return self._notes.setdefault(graph, GraphNotes())


_notebook = _Notebook()


def in_nested_graph() -> bool:
    """Returns whether ops are being added to the body of a `tf.cond`, `tf.while_loop` or `tf.function`."""
    return getattr(tf.get_default_graph(), "outer_graph", None) is not None


def outermost_graph() -> tf.Graph:
    """Returns the graph under construction; in a body of control flow, the graph around all bodies."""
    graph = tf.get_default_graph()
    while getattr(graph, "outer_graph", None) is not None:
        graph = graph.outer_graph
    return graph


def graph_notes() -> GraphNotes:
    """Returns the data of the graph under construction; a control flow body uses those of its outer graph."""
    return _notebook.of(outermost_graph())


def shared_by_towers(purpose: str, make: Callable[[], Sequence[tf.Tensor]]) -> list[tf.Tensor]:
    """Returns tensors that are computed once per step, for all towers and layers that request them.

    So a value that each step reads and then changes is read once, before the change. In a body of control
    flow, the tensors belong to this body.

    Args:
        purpose: a key of the tensors with the name of their variable; towers with separate variables have
            separate tensors.
        make: creates the tensors at the first request.

    Returns:
        The tensors that `make` returned for this purpose in this place, now or earlier.
    """
    graph, made = tf.get_default_graph(), graph_notes().shared
    key = (purpose, *place_of_body())
    if key not in made:
        made[key] = [tensor.name for tensor in make()]
    return [graph.get_tensor_by_name(name) for name in made[key]]


def place_of_body() -> tuple[str, str]:
    """Returns the names of the current control flow body, within which ops can wait for each other."""
    graph = tf.get_default_graph()
    context = graph._get_control_flow_context()
    return getattr(graph, "name", ""), "" if context is None else context.name
