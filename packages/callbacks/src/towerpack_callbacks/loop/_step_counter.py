"""Counts finished steps in the graph's `global_step` variable."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import tensorflow.compat.v1 as tf

from ..graph import find_ancestors

__all__ = ["StepCounter"]

# Ops that do not change a variable; a reference variable is read by an Identity.
_READS = frozenset({"ReadVariableOp", "VariableShape", "VarIsInitializedOp", "IsVariableInitialized"})


@final
class StepCounter:
    """The ops that count a step. Create them while the graph can still be changed.

    Ops of one session call have no order unless declared, so `global_step` might be read before or after the
    increment. Either the increment waits for all ops of the step (`count_after`), or it runs in a separate
    call (`count`).

    A graph may also write the variable, as `optimizer.minimize(…, global_step=…)` does: in each step, in some
    steps only, or in an op that no step runs. In all cases the variable counts one for each step.

    Args:
        graph: the graph; `global_step` is created if the graph lacks it.

    Attributes:
        variable: `global_step`.
        count: the op that counts a step, for graphs without other ops that write the variable.

    Example:
        >>> graph = tf.Graph()
        >>> with graph.as_default():
        ...     counter = StepCounter(graph)
        ...     start = tf.global_variables_initializer()
        >>> with tf.Session(graph=graph) as sess:
        ...     _ = sess.run(start), sess.run(counter.count)
        ...     print(sess.run(counter.variable))
        1
    """

    def __init__(self, graph: tf.Graph) -> None:
        self._graph = graph
        self._steps: tf.Variable | None = None
        with graph.as_default(), tf.name_scope(None), tf.variable_scope(tf.VariableScope(reuse=None)):
            self.variable = tf.train.get_or_create_global_step()
            self.count: tf.Operation = tf.assign_add(self.variable, 1, name="count_step").op
            self._number = tf.placeholder(self.variable.dtype.base_dtype, [], "step_number")
            self._place: tf.Operation = tf.assign(self.variable, self._number, name="place_step").op
        self._own = {self.count.name, self._place.name}

    def count_after(self, ops: Sequence[tf.Operation | tf.Tensor]) -> tf.Operation:
        """Adds an op that counts after all of `ops` have run."""
        writers = self._writers()
        with self._graph.as_default(), tf.name_scope(None):
            if writers and self._steps is None:
                self._make_own_count()
            with tf.control_dependencies(ops):
                if self._steps is None:
                    counted = tf.assign_add(self.variable, 1, name="count_step").op
                else:
                    steps = self._steps.assign_add(1, read_value=True)
                    counted = tf.assign(self.variable, steps, name="count_step").op
        self._own.add(counted.name)
        return counted

    @property
    def is_written_by_others(self) -> bool:
        """Whether other ops of the graph write the variable."""
        return bool(self._writers())

    def is_counted_by(self, fetches: Any) -> bool:
        """Returns whether a run of `fetches` adds one to the variable, and nothing else ever writes it.

        Args:
            fetches: any structure that `Session.run` takes.
        """
        writers = self._writers()
        if self._steps is not None or len(writers) != 1 or not _adds_one(writers[0]):
            return False
        elements = [self._graph.as_graph_element(fetch) for fetch in tf.nest.flatten(fetches)]
        return writers[0] in find_ancestors(elements)

    def placing(self, sess: tf.Session) -> Callable[[int], Any]:
        """Returns a function that sets the number of finished steps."""
        return sess.make_callable(self._place, [self._number])  # type: ignore[no-any-return]

    def value(self, sess: tf.Session) -> int:
        """Returns the number of steps counted so far."""
        return int(sess.run(self.variable))

    def value_after_failure(self, sess: tf.Session) -> int:
        """Returns the number of finished steps, after a run that may have failed in the middle of one."""
        if self._steps is None:
            return self.value(sess)
        steps = int(sess.run(self._steps))
        self.placing(sess)(steps)
        return steps

    def _make_own_count(self) -> None:
        """Makes a second count that the graph's ops do not use; checkpoints do not contain it."""
        with tf.control_dependencies(None):
            self._steps = tf.Variable(
                tf.zeros([], self.variable.dtype.base_dtype),
                trainable=False,
                collections=[tf.GraphKeys.LOCAL_VARIABLES],
                name="finished_steps",
                use_resource=True,
            )
            self._place = tf.group(self._place, self._steps.assign(self._number, read_value=False))

    def _writers(self) -> list[tf.Operation]:
        """The ops that may write the variable in a step, except those of this object."""
        is_resource = hasattr(self.variable, "handle")
        handle = self.variable.handle if is_resource else self.variable._ref()
        reads = _READS if is_resource else _READS | {"Identity"}
        own = self._own | {self.variable.initializer.name}
        return [
            op
            for op in handle.consumers()
            if op.type not in reads and op.name not in own and not _restores(op)
        ]


def _adds_one(op: tf.Operation) -> bool:
    """Whether an op adds 1 unconditionally: in a branch, its variable would be the output of another op."""
    if op.type not in {"AssignAddVariableOp", "AssignAdd"} or op._get_control_flow_context() is not None:
        return False
    return bool(tf.get_static_value(op.inputs[1]) == 1)


def _restores(op: tf.Operation) -> bool:
    """Whether an op assigns a value read by a `tf.train.Saver`: no step runs it."""
    source = op.inputs[-1].op
    while source.type == "Identity":
        source = source.inputs[0].op
    return bool(source.type == "RestoreV2")
