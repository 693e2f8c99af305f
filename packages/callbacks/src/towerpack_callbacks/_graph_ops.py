"""Ops that run along with each training step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import tensorflow.compat.v1 as tf

from ._callback import Callback, StepFetch

__all__ = ["RunUpdateOps"]


@final
class RunUpdateOps(Callback):
    """Runs the ops of a graph collection with every step; batch normalisation keeps its statistics this way.

    Args:
        collection: name of the collection.
    """

    chief_only = False

    def __init__(self, collection: str = tf.GraphKeys.UPDATE_OPS) -> None:
        self._collection = collection
        self._op: tf.Operation | None = None

    def _setup_graph(self) -> None:
        # An op made inside a tf.cond branch lands in the outer collection, but cannot be run from outside.
        updates = [
            u for u in self.graph.get_collection(self._collection) if _operation(u).graph is self.graph
        ]
        self._op = tf.group(*updates, name="update_ops") if updates else None

    def step_fetches(self) -> Sequence[StepFetch]:
        return [] if self._op is None else [StepFetch(self._op)]


def _operation(update: tf.Tensor | tf.Operation) -> tf.Operation:
    return update if isinstance(update, tf.Operation) else update.op
