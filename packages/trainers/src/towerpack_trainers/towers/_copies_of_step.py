"""Runs a finished training step several times within one session call.

The step is not built again: its ops are copied into the body of a loop, in the same way as TensorFlow's own
importer copies a graph. State between steps (variables, queues, iterators, staging areas) is not copied but
shared, so the copies have the same effect as the step itself. Some tensors of the step may be replaced in the
copies, which then do not compute them: for example a batch that was already taken, or the number of another
step.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, final

import tensorflow.compat.v1 as tf

from towerpack_callbacks import find_ancestors

from .._errors import ConfigError
from ._optimize_nodes import colocated_with, op_name, optimized, with_inputs

__all__ = ["CONTROL_FLOW", "Given", "StepCopies", "uses_state"]

# Ops of TensorFlow 1's loops, which find each other by names that copies would share.
CONTROL_FLOW = frozenset({"Enter", "Exit", "LoopCond", "Merge", "NextIteration", "Switch"})

# Ops with state that the loop cannot share with the original step.
_REFERENCES = frozenset({"Variable", "VariableV2", "TemporaryVariable"})
# Added to the seed of stateful random ops that must draw other numbers; a prime, far from small seeds.
_OTHER_SEED = 1_000_003

Given = Callable[[tf.Tensor | int], Sequence[tf.Tensor]]
"""Maps the number of a copy, or of a loop's iteration, to the values of the replaced tensors."""


@final
class StepCopies:
    """Makes copies of a step, alone or in a loop.

    Attributes:
        graph: the step's graph.
        ops: the copied ops.

    Args:
        outputs: the ops to run and the tensors to compute; their dependencies are the step.
        given: tensors of the step that are replaced in copies.
        kept: ops that are not copied; copies use their original outputs.
        wanted_by: the argument that requires the copies, for messages.
        other_numbers: 0, or a number that makes stateful random ops draw other numbers than in the step
            itself, and than in copies with another number.
        optimize: whether to change the copies so that they take less time, with the same results; ignored
            for loops of TensorFlow 1.

    Raises:
        ConfigError: the step needs a feed, or has TensorFlow 1's reference variables.
    """

    def __init__(
        self,
        outputs: Sequence[tf.Operation | tf.Tensor],
        given: Sequence[tf.Tensor] = (),
        kept: Collection[tf.Operation] = (),
        wanted_by: str = "steps_per_run",
        other_numbers: int = 0,
        optimize: bool = False,
    ) -> None:
        self._names = [output.name for output in outputs]
        first = outputs[0]
        self.graph: tf.Graph = first.graph
        self._given, self._wanted_by, self._other_numbers = given, wanted_by, other_numbers
        cut = frozenset([*kept, *(tensor.op for tensor in given)])
        self.ops, handles = _divide(outputs, cut, wanted_by)
        self._optimize = optimize and all(op.type not in CONTROL_FLOW for op in self.ops)
        self._cut = {op.name for op in cut}
        self._handles = {tensor.name: tensor for tensor in handles}
        taken = {tensor.name: tensor for op in self.ops for tensor in op.inputs}
        self._kept = {name: tensor for name, tensor in taken.items() if tensor.op in cut}

    def prepare(self) -> None:
        """Serialises the ops, before anything is added to the graph.

        Raises:
            ConfigError: the graph is too large to be serialised.
        """
        _ = self._definition

    def once(self, name: str, given: Given | None = None) -> list[Any]:
        """Adds one copy; returns the copies of the outputs.

        Args:
            name: the name scope of the copy.
            given: called with 0, returns the values of the replaced tensors; None without any.
        """
        with self.graph.as_default(), tf.name_scope(None), tf.control_dependencies(None):
            return self._copy(name, 0, given)

    def after(self, op: tf.Operation, name: str, given: Given | None = None) -> list[Any]:
        """Adds one copy that begins after `op`; returns the copies of the outputs.

        Args:
            op: an op of the graph.
            name: the name scope of the copy.
            given: called with 0, returns the values of the replaced tensors; None without any.
        """
        with self.graph.as_default(), tf.name_scope(None), tf.control_dependencies([op]):
            return self._copy(name, 0, given)

    def loop(
        self,
        goes_on: Callable[[tf.Tensor], tf.Tensor],
        name: str,
        given: Given | None = None,
        after: Sequence[tf.Operation] = (),
    ) -> tf.Tensor:
        """Adds a loop over the step to the default graph; returns the number of its iterations.

        Args:
            goes_on: called before each iteration with the number of previous ones; returns a boolean.
            name: the loop's name.
            given: called with the number of the iteration, returns the values of the replaced tensors; None
                without any.
            after: ops that run before the loop.
        """

        def body(iteration: tf.Tensor) -> tf.Tensor:
            outputs = self._copy("step", iteration, given)
            with tf.control_dependencies(outputs):
                return iteration + 1

        with tf.name_scope(None), tf.control_dependencies(None):
            with tf.control_dependencies(after):
                start = tf.constant(0)
            return tf.while_loop(goes_on, body, [start], parallel_iterations=1, name=name)

    @functools.cached_property  # slow for a large graph, and not needed to inspect the ops
    def _definition(self) -> Any:
        wanted = {op.name for op in self.ops}
        try:
            whole = self.graph.as_graph_def()
        except ValueError as error:
            raise ConfigError(
                f"{self._wanted_by} needs a graph that can be serialised in 2 GB: {error}. Make large "
                f"constants variables, or use {self._wanted_by}=1."
            ) from error
        definition = tf.GraphDef(versions=whole.versions, library=whole.library)
        adapted = [self._adapt(node, wanted) for node in whole.node if node.name in wanted]
        kept = {op_name(name) for name in self._names}
        nodes = _with_shared_reads(adapted, kept)
        definition.node.extend(optimized(nodes, self.graph, kept) if self._optimize else nodes)
        if self._other_numbers:
            _change_seeds(definition, _OTHER_SEED * self._other_numbers)
        return definition

    def _adapt(self, node: Any, wanted: set[str]) -> Any:
        """Returns a node as changed for copies."""
        node = _without_outer_colocation(node, wanted)
        waits_for = {name[1:] for name in node.input if name.startswith("^")} & self._cut
        if not waits_for:
            return node
        return with_inputs(
            node, [name for name in node.input if name[1:] not in waits_for or not name.startswith("^")]
        )

    def _copy(self, name: str, number: tf.Tensor | int = 0, given: Given | None = None) -> list[Any]:
        values = {} if given is None else dict(zip((tensor.name for tensor in self._given), given(number)))
        # TensorFlow refuses a replacement without a consumer.
        inputs = {name for node in self._definition.node for name in node.input}
        replaced = {**self._handles, **self._kept, **values}
        taken = {key: value for key, value in replaced.items() if {key, key.removesuffix(":0")} & inputs}
        return tf.import_graph_def(  # type: ignore[no-any-return]
            self._definition,
            input_map={key: _reachable(value) for key, value in taken.items()},
            return_elements=self._names,
            name=name,
        )


def uses_state(op: tf.Operation) -> bool:
    """Returns whether an op has state, or reads or writes that of a resource."""
    return bool(op.op_def.is_stateful) or any(tensor.dtype == tf.resource for tensor in op.inputs)


def _divide(
    outputs: Sequence[tf.Operation | tf.Tensor], cut: frozenset[tf.Operation], wanted_by: str
) -> tuple[list[tf.Operation], list[tf.Tensor]]:
    """Returns the ops to copy, of those that outputs depend on, and the handles of their shared state."""
    ends = find_ancestors(outputs, ends_at=lambda op: op in cut or _holds_state(op))
    # In a fixed order, so that the error always names the same op.
    found = sorted(ends - cut, key=lambda op: op.name)
    for op in found:
        _check(op, wanted_by)
    copied = [op for op in found if not _holds_state(op)]
    return copied, [handle for op in found if _holds_state(op) for handle in _handles(op)]


def _holds_state(op: tf.Operation) -> bool:
    return bool(_handles(op)) and not op.inputs


def _handles(op: tf.Operation) -> list[tf.Tensor]:
    return [tensor for tensor in op.outputs if tensor.dtype == tf.resource]


def _check(op: tf.Operation, wanted_by: str) -> None:
    if op.type == "Placeholder":
        raise ConfigError(
            f"{wanted_by} needs a step without feeds, but this one needs {op.name!r}. "
            "Pass the data as dataflow=, or as an InputSource that lives in the graph, such as QueueInput."
        )
    if op.type in _REFERENCES:
        raise ConfigError(
            f"{wanted_by} needs resource variables, but {op.name!r} is a reference variable. "
            "Make it with use_resource=True."
        )


def _change_seeds(definition: Any, shift: int) -> None:
    """Makes stateful random ops draw other numbers, also those in functions, such as bodies of loops."""
    functions = {function.signature.name: function for function in definition.library.function}

    @functools.cache
    def draws(name: str) -> bool:
        nodes = functions[name].node_def if name in functions else ()
        return any(_has_seed(node) or any(draws(each.name) for each in _called_by(node)) for node in nodes)

    @functools.cache
    def copy_of(name: str) -> str:
        copy = definition.library.function.add()
        copy.CopyFrom(functions[name])
        copy.signature.name = f"{name}_{shift}"
        change(copy.node_def)
        return copy.signature.name  # type: ignore[no-any-return]

    def change(nodes: Any) -> None:
        for node in nodes:
            if _has_seed(node):
                node.attr["seed2"].i += shift
            for called in _called_by(node):
                called.name = copy_of(called.name) if draws(called.name) else called.name

    change(definition.node)


def _has_seed(node: Any) -> bool:
    """Returns whether a node draws random numbers from a seed; 0 and 0 stand for none."""
    return "seed2" in node.attr and bool(node.attr["seed"].i or node.attr["seed2"].i)


def _called_by(node: Any) -> list[Any]:
    """Returns the functions among the attributes of a node."""
    return [each for value in node.attr.values() for each in (value.func, *value.list.func) if each.name]


def _with_shared_reads(nodes: Sequence[Any], kept: Collection[str]) -> list[Any]:
    """Returns the nodes, with one read of a variable in place of several that may run at the same moment.

    An optimizer reads the powers of Adam for each weight, which takes a few percent of a small step.

    Args:
        nodes: the nodes of a graph.
        kept: names of nodes that must remain.
    """
    kept = {*kept, *(name for node in nodes for name in colocated_with(node))}
    reads: dict[Any, str] = {}
    twins: dict[str, str] = {}
    for node in nodes:
        if node.op == "ReadVariableOp":
            # With equal inputs, also those for the order.
            inputs = frozenset(_renamed(name, twins) for name in node.input)
            read = reads.setdefault((inputs, node.device), node.name)
            if read != node.name and node.name not in kept:
                twins[node.name] = read
    return [
        node
        if twins.keys().isdisjoint(map(op_name, node.input))
        else with_inputs(node, [_renamed(name, twins) for name in node.input])
        for node in nodes
        if node.name not in twins
    ]


def _renamed(name: str, names: Mapping[str, str]) -> str:
    """Returns an input of a node, by the new name of its op."""
    op = op_name(name)
    return name.replace(op, names[op], 1) if op in names else name


def _without_outer_colocation(node: Any, names: set[str]) -> Any:
    """Returns the node without colocation constraints to ops that are not copied; its device is explicit."""
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
    """Returns a tensor for the current graph: a loop's body is a separate graph."""
    graph = tf.get_default_graph()
    return tensor if graph is tensor.graph else graph.capture(tensor)
