"""What the layers remember about a graph: the layer scopes in use and the lines already logged.

It belongs to the graph and goes with it, so two graphs in one process know nothing of each other. A graph
collection would be the natural place, but TensorFlow warns about every collection it cannot write into a meta
graph.
"""

from __future__ import annotations

import threading
import weakref

import attrs
import tensorflow.compat.v1 as tf


@attrs.define(eq=False)
class GraphNotes:
    """Notes on one graph.

    Args:
        scopes: full variable-scope name of each layer built without reuse, and the kind of layer it was.
        said: keys of the lines logged so far.
    """

    scopes: dict[str, str] = attrs.field(factory=dict)
    said: set[tuple[str, str]] = attrs.field(factory=set)

    def first_time(self, topic: str, key: str) -> bool:
        """Return whether this is the first call for ``topic`` and ``key``."""
        before = len(self.said)
        self.said.add((topic, key))
        return len(self.said) > before


class _Notebook:
    """The notes on every living graph."""

    def __init__(self) -> None:
        self._notes: weakref.WeakKeyDictionary[tf.Graph, GraphNotes] = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()

    def of(self, graph: tf.Graph) -> GraphNotes:
        with self._lock:
            return self._notes.setdefault(graph, GraphNotes())


_notebook = _Notebook()


def in_nested_graph() -> bool:
    """Return whether ops are being added to the body of a ``tf.cond``, ``tf.while_loop`` or "
    "``tf.function``."""
    return getattr(tf.get_default_graph(), "outer_graph", None) is not None


def graph_notes() -> GraphNotes:
    """Return the notes on the graph under construction; bodies of control flow share those of their outer "
    "graph."""
    graph = tf.get_default_graph()
    while getattr(graph, "outer_graph", None) is not None:
        graph = graph.outer_graph
    return _notebook.of(graph)
