"""The graph of a trainer, in which the whole `__init__` of a subclass runs."""

from __future__ import annotations

import functools
from typing import Any

import tensorflow.compat.v1 as tf

__all__ = ["build_in_graph", "graph_of"]


def graph_of(trainer: Any) -> tf.Graph:
    """Returns the graph of a trainer; the first call makes it.

    Args:
        trainer: the trainer; its own `__init__` may not have begun.
    """
    if "graph" not in vars(trainer):
        trainer.graph = tf.Graph()
    return trainer.graph


def build_in_graph(kind: type[Any]) -> None:
    """Wraps the `__init__` of a class of trainers, if it has one, so that it builds in the trainer's graph.

    A script builds there as with Tensorpack's trainers. Otherwise, ops made after `super().__init__()`
    would be in the default graph, where the trainer's input is not available.

    Args:
        kind: the new class; a class without `__init__` uses that of its base.
    """
    init = vars(kind).get("__init__")
    if init is None:
        return

    @functools.wraps(init)
    def init_in_graph(self: Any, *args: Any, **arguments: Any) -> None:
        with graph_of(self).as_default():
            init(self, *args, **arguments)

    kind.__init__ = init_in_graph
