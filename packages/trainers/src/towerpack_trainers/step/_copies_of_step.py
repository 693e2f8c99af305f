"""Runs a finished training step several times within one session call.

The step is not built again: the ops that it consists of are copied, as TensorFlow's own importer copies a
graph, into the body of a loop. Whatever holds state between steps (variables, queues, iterators, staging
areas) is not copied but shared, so the copies do what the step itself would do.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, final

import tensorflow.compat.v1 as tf

from towerpack_callbacks import find_ancestors

from .._errors import ConfigError

__all__ = ["StepCopies"]

# Ops whose state the loop cannot share with the step outside of it.
_REFERENCES = frozenset({"Variable", "VariableV2", "TemporaryVariable"})


@final
class StepCopies:
    """Makes copies of a step, alone or in a loop.

    Attributes:
        graph: the step's graph.
        ops: the ops that are copied.

    Args:
        outputs: the ops to run and the tensors to compute; what they depend on is the step.

    Raises:
        ConfigError: the step needs something fed, or has variables of TensorFlow 1's reference kind.
    """

    def __init__(self, outputs: Sequence[tf.Operation | tf.Tensor]) -> None:
        self._names = [output.name for output in outputs]
        first = outputs[0]
        self.graph: tf.Graph = first.graph
        self.ops, shared = _divide(outputs)
        self._handles = {tensor.name: tensor for tensor in shared}

    def prepare(self) -> None:
        """Describes the ops, before anything is added to the graph.

        Raises:
            ConfigError: the graph is too large to be described.
        """
        _ = self._definition

    def after(self, op: tf.Operation, name: str) -> list[Any]:
        """Adds one copy that begins when `op` is done; returns the copies of the outputs."""
        with self.graph.as_default(), tf.name_scope(None), tf.control_dependencies([op]):
            return self._copy(name)

    def loop(self, goes_on: Callable[[tf.Tensor], tf.Tensor], name: str) -> tf.Tensor:
        """Adds a loop over the step; returns the number of its iterations.

        Args:
            goes_on: called before each iteration with the number of those before; returns a boolean.
            name: the loop's name.
        """

        def body(iteration: tf.Tensor) -> tf.Tensor:
            outputs = self._copy("step")
            with tf.control_dependencies(outputs):
                return iteration + 1

        with self.graph.as_default(), tf.name_scope(None), tf.control_dependencies(None):
            return tf.while_loop(goes_on, body, [tf.constant(0)], parallel_iterations=1, name=name)

    @functools.cached_property  # takes time for a large graph, and is not needed to look at the ops
    def _definition(self) -> Any:
        wanted = {op.name for op in self.ops} | {tensor.op.name for tensor in self._handles.values()}
        try:
            whole = self.graph.as_graph_def()
        except ValueError as error:
            raise ConfigError(
                f"steps_per_run needs a graph that can be described in 2 GB: {error}. Let large constants be "
                "variables, or use steps_per_run=1."
            ) from error
        definition = tf.GraphDef(versions=whole.versions, library=whole.library)
        definition.node.extend(_without_outer_colocation(n, wanted) for n in whole.node if n.name in wanted)
        return definition

    def _copy(self, name: str) -> list[Any]:
        return tf.import_graph_def(  # type: ignore[no-any-return]
            self._definition,
            input_map={key: _reachable(tensor) for key, tensor in self._handles.items()},
            return_elements=self._names,
            name=name,
        )


def _divide(outputs: Sequence[tf.Operation | tf.Tensor]) -> tuple[list[tf.Operation], list[tf.Tensor]]:
    """Returns the ops to copy of those that outputs depend on, and the handles of the state they share."""
    # In one order, so that of several ops that are refused the same one is named each time.
    found = sorted(find_ancestors(outputs, ends_at=_holds_state), key=lambda op: op.name)
    for op in found:
        _check(op)
    copied = [op for op in found if not _holds_state(op)]
    return copied, [handle for op in found if _holds_state(op) for handle in _handles(op)]


def _holds_state(op: tf.Operation) -> bool:
    return bool(_handles(op)) and not op.inputs


def _handles(op: tf.Operation) -> list[tf.Tensor]:
    return [tensor for tensor in op.outputs if tensor.dtype == tf.resource]


def _check(op: tf.Operation) -> None:
    if op.type == "Placeholder":
        raise ConfigError(
            f"steps_per_run needs a step to which nothing is fed, but this one needs {op.name!r}. "
            "Give the data as dataflow=, or as an InputSource that lives in the graph, such as QueueInput."
        )
    if op.type in _REFERENCES:
        raise ConfigError(
            f"steps_per_run needs resource variables, but {op.name!r} is of the older kind. "
            "Make it with use_resource=True."
        )


def _without_outer_colocation(node: Any, names: set[str]) -> Any:
    """The node without constraints to be where an op is that is not copied; its device is written in it."""
    if "_class" not in node.attr:
        return node
    kept = [where for where in node.attr["_class"].list.s if where.decode().removeprefix("loc:@") in names]
    copy = type(node)()
    copy.CopyFrom(node)
    del copy.attr["_class"]
    if kept:
        copy.attr["_class"].list.s.extend(kept)
    return copy


def _reachable(tensor: tf.Tensor) -> tf.Tensor:
    """A tensor as the current graph may use it: a loop's body is a graph of its own."""
    graph = tf.get_default_graph()
    return tensor if graph is tensor.graph else graph.capture(tensor)
