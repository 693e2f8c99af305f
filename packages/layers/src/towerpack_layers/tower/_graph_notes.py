"""Notes on each graph: the layer scopes in use and the lines already logged.

The notes live as long as their graph, and two graphs in one process share none. A graph collection would be
the natural place, but TensorFlow warns about every collection that it cannot write into a meta graph.
"""

from __future__ import annotations

import threading
import weakref
from typing import Any, final

import attrs
import tensorflow.compat.v1 as tf

__all__ = ["GraphNotes", "graph_notes", "in_nested_graph", "outermost_graph"]


@final
@attrs.define(eq=False)
class GraphNotes:
    """Notes on one graph.

    Args:
        scopes: full variable-scope name of each layer built without reuse, and the kind of layer.
        failed: by graph and name scope of a layer whose last call failed, the variables that it had made.
        logged: keys of the lines logged so far.
        costs_of_towers: names of the regularization losses that were added in a tower which is left by now.
        shared: by purpose and place, the names of tensors that several towers use.
        moved: by place, the name of the last op that moves a moving average. No op is kept: it would keep
            the graph alive.
        name_scopes: by graph and name, the full names of the name scopes that are opened again and again.
        shared_calls: for functions whose calls share their variables, each with the variable scopes in which
            it was called.
        scoped_calls: by label, which default arguments a layer's call found; as text, for the same reason.
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
    """The notes on every graph that is alive."""

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
    """Returns the graph under construction; in a body of control flow, the one around all bodies."""
    graph = tf.get_default_graph()
    while getattr(graph, "outer_graph", None) is not None:
        graph = graph.outer_graph
    return graph


def graph_notes() -> GraphNotes:
    """Returns the notes on the graph under construction; a body of control flow has its outer graph's."""
    return _notebook.of(outermost_graph())
