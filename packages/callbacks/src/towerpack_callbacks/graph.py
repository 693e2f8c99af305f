"""Searches in a finished graph: tensors, scopes, gradients, copies, and dependencies of tensors."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import final

import attrs
import tensorflow.compat.v1 as tf

from ._errors import ScopeError, TensorNotFoundError

__all__ = [
    "as_names",
    "begin_as_copies",
    "copies_are_due",
    "creation_order",
    "find_ancestors",
    "find_applied_gradients",
    "find_tensors",
    "floating_variables",
    "reads_variable",
    "sources_of",
    "take_copies",
]


def as_names(names: Sequence[str]) -> list[str]:
    """Returns names as a list.

    Raises:
        TypeError: `names` is one string instead of a list.
    """
    if isinstance(names, str):
        raise TypeError(f"Expected a list of names, received one string: {names!r}. Write [{names!r}].")
    return list(names)


def find_tensors(graph: tf.Graph, names: Sequence[str], prefixes: Sequence[str] = ("",)) -> list[tf.Tensor]:
    """Finds tensors by name, trying each prefix in turn. The name of a variable gives its value.

    Args:
        graph: the graph.
        names: names such as "conv0/output" or "conv0/output:0".
        prefixes: prefixes that a name may have, such as "" and "tower0/".

    Raises:
        TypeError: `names` is one string.
        TensorNotFoundError: no tensor has the name; the message lists similar names.
    """
    return [_find(graph, name, prefixes) for name in as_names(names)]


def _find(graph: tf.Graph, name: str, prefixes: Sequence[str]) -> tf.Tensor:
    tensor_name = name if ":" in name else f"{name}:0"
    for prefix in prefixes:
        try:
            tensor = graph.as_graph_element(prefix + tensor_name, allow_operation=False)
        except (KeyError, ValueError):
            continue
        return _value(graph, tensor) if tensor.dtype == tf.resource else tensor
    close = _close_names(graph, name.split(":")[0], prefixes)
    tried = ", ".join(repr(prefix + tensor_name) for prefix in prefixes)
    raise TensorNotFoundError(
        f"The graph has no tensor {tried}."
        + (f" Close names are: {', '.join(close)}." if close else "")
        + " Name it in the model, for example tf.identity(x, name=...)."
    )


def _close_names(graph: tf.Graph, name: str, prefixes: Sequence[str]) -> list[str]:
    """Returns similar names of ops, without prefixes."""
    ops = [op.name for op in graph.get_operations()]
    inside = [op.removeprefix(prefix) for op in ops for prefix in prefixes if op.startswith(prefix)]
    beginnings = [op for op in inside if op.startswith(name) or op.rsplit("/", 1)[-1].startswith(name)]
    return list(dict.fromkeys([*difflib.get_close_matches(name, inside, n=3), *beginnings]))[:3]


def _value(graph: tf.Graph, handle: tf.Tensor) -> tf.Tensor:
    """Returns the value of a handle's variable, from an existing read op."""
    for key in (tf.GraphKeys.GLOBAL_VARIABLES, tf.GraphKeys.LOCAL_VARIABLES):
        for variable in graph.get_collection(key):
            if variable.op.name == handle.op.name:
                return graph.as_graph_element(variable)
    return handle


def floating_variables(
    graph: tf.Graph, scope: str | None, collection: str = tf.GraphKeys.TRAINABLE_VARIABLES
) -> list[tf.Variable]:
    """Returns the floating-point variables of a collection, in one variable scope or in all.

    Args:
        graph: the graph.
        scope: name of a scope, such as "gen" or "gen/block0"; None: all variables.
        collection: name of the collection.

    Raises:
        ScopeError: the scope contains no such variable; the message lists the scopes that do.
    """
    found = [variable for variable in graph.get_collection(collection) if variable.dtype.is_floating]
    if not found:
        raise ScopeError(f"The collection {collection!r} has no floating-point variable.")
    if scope is None:
        return found
    inside = scope.rstrip("/") + "/"
    scoped = [variable for variable in found if variable.op.name.startswith(inside)]
    if not scoped:
        counts = Counter(variable.op.name.rpartition("/")[0] for variable in found)
        there = ", ".join(f"{name or 'no scope'} ({count})" for name, count in sorted(counts.items()))
        raise ScopeError(
            f"No floating-point variable of the collection {collection!r} is in the scope {scope!r}. Scopes "
            f"with their numbers of variables: {there}."
        )
    return scoped


# The key is a tuple because TensorFlow exports collections with string keys.
_COPIES = ("towerpack_variable_copies",)


def begin_as_copies(graph: tf.Graph, pairs: Iterable[tuple[tf.Variable, tf.Variable]]) -> None:
    """Declares variables that start as copies if a checkpoint lacks them.

    Args:
        graph: the graph of the variables.
        pairs: pairs of a copy and its original.
    """
    graph.get_collection_ref(_COPIES).extend(pairs)


def take_copies(graph: tf.Graph) -> list[tuple[tf.Variable, tf.Variable]]:
    """Removes and returns the declared pairs; the graph may be final."""
    declared = graph.get_collection_ref(_COPIES)
    pairs = list(declared)
    declared.clear()
    return pairs


def copies_are_due(graph: tf.Graph, copies: Iterable[tf.Variable]) -> bool:
    """Returns whether some of these variables are declared as copies that have not been made yet."""
    names = {copy.op.name for copy in copies}
    return any(copy.op.name in names for copy, _ in graph.get_collection(_COPIES))


_READS_VARIABLE = {"ReadVariableOp", "ResourceGather", "ResourceGatherNd", "Variable", "VariableV2"}
_PLACEHOLDERS = {"Placeholder", "PlaceholderWithDefault"}
# Stateful because of their contents, which can be run again.
_CALLS = {"If", "While", "Case", "PartitionedCall", "StatefulPartitionedCall"}


def find_ancestors(
    targets: Iterable[tf.Tensor | tf.Operation],
    fed: Iterable[tf.Tensor] = (),
    ends_at: Callable[[tf.Operation], bool] | None = None,
) -> set[tf.Operation]:
    """Finds all ops that must run for the targets, control inputs and the targets' own ops included.

    Args:
        targets: tensors and ops.
        fed: tensors that are fed.
        ends_at: returns whether the search ends at an op: the op itself is found, but its dependencies are
            not, unless the targets depend on them in another way. None: search all ops.

    Example:
        >>> import tensorflow.compat.v1 as tf
        >>> from towerpack_callbacks import find_ancestors
        >>> with tf.Graph().as_default():
        ...     x = tf.placeholder(tf.float32, [], "x")
        ...     y = tf.negative(tf.square(x, "square"), "y")
        >>> sorted(op.name for op in find_ancestors([y]))
        ['square', 'x', 'y']
        >>> sorted(op.name for op in find_ancestors([y], ends_at=lambda op: op.type == "Square"))
        ['square', 'y']
    """
    known = {tensor.name for tensor in fed}
    pending = [
        target if isinstance(target, tf.Operation) else target.op
        for target in targets
        if isinstance(target, tf.Operation) or target.name not in known
    ]
    found: set[tf.Operation] = set()
    while pending:
        op = pending.pop()
        if op in found:
            continue
        found.add(op)
        if ends_at is None or not ends_at(op):
            pending.extend(tensor.op for tensor in op.inputs if tensor.name not in known)
            pending.extend(op.control_inputs)
    return found


def creation_order(graph: tf.Graph) -> dict[str, int]:
    """Numbers the ops in a topological order: an op's inputs come before it."""
    return {op.name: number for number, op in enumerate(graph.get_operations())}


def reads_variable(op: tf.Operation) -> bool:
    """Returns whether an op's output is the value of a variable."""
    return op.type in _READS_VARIABLE


def is_source(op: tf.Operation) -> bool:
    """Returns whether an op brings new values into a step: data, random numbers, results of Python code."""
    if op.type in _PLACEHOLDERS:
        return True
    if not op.op_def.is_stateful or reads_variable(op) or op.type in _CALLS:
        return False
    # An op that returns a resource gives the handle of a variable or queue, not a value from it.
    return bool(op.outputs) and not any(t.dtype in {tf.resource, tf.variant} for t in op.outputs)


def sources_of(targets: Iterable[tf.Tensor]) -> list[tf.Tensor]:
    """Finds the tensors that determine the targets, to compute these again without any new values.

    These are usually the outputs of sources. If an op waits for a source by a control input, such as an op
    that counts the elements taken from a queue, feeding the source's outputs would not keep the source from
    running; then they are the outputs of that op.

    Returns:
        The tensors, in the order of their creation.
    """
    targets = list(targets)
    order = creation_order(targets[0].graph)
    used = {tensor.name: tensor for op in find_ancestors(targets) for tensor in op.inputs}
    used.update((tensor.name, tensor) for tensor in targets)
    fed = [tensor for tensor in used.values() if is_source(tensor.op)]
    while True:
        needed = sorted(find_ancestors(targets, fed), key=lambda op: order[op.name])
        waiting = _first_that_waits_for_a_source(needed, fed)
        if waiting is None:
            break
        fed += [tensor for tensor in waiting.outputs if tensor.name in used]
    needed_of = {tensor.name for op in needed for tensor in op.inputs} | {target.name for target in targets}
    return sorted(
        (tensor for tensor in fed if tensor.name in needed_of),
        key=lambda tensor: (order[tensor.op.name], tensor.value_index),
    )


def _first_that_waits_for_a_source(needed: list[tf.Operation], fed: list[tf.Tensor]) -> tf.Operation | None:
    """Finds the first op with control inputs that would run a source and with an output to feed instead."""
    known = {tensor.name for tensor in fed}
    runs_source: set[tf.Operation] = set()
    for op in needed:
        by_control = any(before in runs_source for before in op.control_inputs)
        if by_control and any(tensor.name not in known for tensor in op.outputs):
            return op
        by_data = any(tensor.op in runs_source for tensor in op.inputs if tensor.name not in known)
        if by_control or by_data or is_source(op):
            runs_source.add(op)
    return None


# The name of the gradient input of ResourceApplyAdam, ApplyMomentum, ResourceSparseApplyAdagrad, …
_APPLIES = re.compile(r"(Resource)?(Sparse)?Apply[A-Z]")
_GRADIENT_ARGUMENTS = ("grad", "delta")


@final
@attrs.frozen(eq=False)
class AppliedGradient:
    """One update of a variable by an optimizer.

    Attributes:
        variable: the variable.
        gradient: the gradient as applied: averaged, clipped and so on. For a sparse update, its rows.
        op: the op that applies it.
    """

    variable: tf.Variable
    gradient: tf.Tensor
    op: tf.Operation


def find_applied_gradients(
    graph: tf.Graph, among: Iterable[tf.Variable] | None = None
) -> Sequence[AppliedGradient]:
    """Finds the ops by which optimizers update variables.

    It finds TensorFlow's fused updates. It does not find updates composed of assignments (such as Adam's
    sparse update), nor updates inside a `tf.cond` or a function.

    Args:
        graph: the graph.
        among: the variables; None: the trainable ones.
    """
    wanted = graph.get_collection("trainable_variables") if among is None else among
    variables = {_handle_name(variable): variable for variable in wanted}
    found = []
    for op in graph.get_operations():
        if _APPLIES.match(op.type) and op.inputs[0].op.name in variables:
            names = [argument.name for argument in op.op_def.input_arg]
            for name in _GRADIENT_ARGUMENTS:
                if name in names:
                    variable = variables[op.inputs[0].op.name]
                    found.append(AppliedGradient(variable, op.inputs[names.index(name)], op))
    return found


def _handle_name(variable: tf.Variable) -> str:
    handle = variable.handle if hasattr(variable, "handle") else variable._ref()
    return str(handle.op.name)
