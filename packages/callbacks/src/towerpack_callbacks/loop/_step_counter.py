"""Counts finished steps in the graph's own `global_step` variable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import tensorflow.compat.v1 as tf

__all__ = ["StepCounter"]


@final
class StepCounter:
    """The ops that count a step. Create them while the graph can still be changed.

    Ops of one session call have no order unless one is declared, so `global_step` would be read before or
    after the increment by chance. Either the increment waits for all ops of the step (`count_after`), or it
    runs in a call of its own (`count`).

    Args:
        graph: the graph; its `global_step` is created if it has none.
    """

    def __init__(self, graph: tf.Graph) -> None:
        self._graph = graph
        with graph.as_default(), tf.name_scope(None), tf.variable_scope(tf.VariableScope(reuse=None)):
            self.variable = tf.train.get_or_create_global_step()
            self.counted_by_graph = _is_written_by_training(graph, self.variable)
            self.count: tf.Operation = tf.assign_add(self.variable, 1, name="count_step").op

    def count_after(self, ops: Sequence[tf.Operation | tf.Tensor]) -> tf.Operation:
        """Adds an op that counts once all of `ops` have run."""
        with self._graph.as_default(), tf.name_scope(None), tf.control_dependencies(ops):
            return tf.assign_add(self.variable, 1, name="count_step").op

    def value(self, sess: tf.Session) -> int:
        """Returns the number of steps counted so far."""
        return int(sess.run(self.variable))


def _is_written_by_training(graph: tf.Graph, global_step: tf.Variable) -> bool:
    """Whether an op of the graph increments the variable, as `optimizer.minimize(…, global_step=…)` does."""
    handle = global_step.handle if hasattr(global_step, "handle") else global_step._ref()
    return any(consumer.type in {"AssignAddVariableOp", "AssignAdd"} for consumer in handle.consumers())
