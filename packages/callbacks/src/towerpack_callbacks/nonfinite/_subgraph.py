"""What of a graph some tensors depend on."""

from __future__ import annotations

from collections.abc import Iterable

import tensorflow.compat.v1 as tf

__all__ = ["ancestors", "creation_order", "is_source", "reads_variable", "sources_of"]

_READS_VARIABLE = {"ReadVariableOp", "ResourceGather", "ResourceGatherNd", "Variable", "VariableV2"}
_PLACEHOLDERS = {"Placeholder", "PlaceholderWithDefault"}
# Stateful because of what is inside; that can be run again as it is.
_CALLS = {"If", "While", "Case", "PartitionedCall", "StatefulPartitionedCall"}


def ancestors(targets: Iterable[tf.Tensor | tf.Operation]) -> set[tf.Operation]:
    """All ops that must run for the targets, control inputs included, the targets' own ops, too."""
    pending = [target if isinstance(target, tf.Operation) else target.op for target in targets]
    found: set[tf.Operation] = set()
    while pending:
        op = pending.pop()
        if op not in found:
            found.add(op)
            pending.extend(tensor.op for tensor in op.inputs)
            pending.extend(op.control_inputs)
    return found


def creation_order(graph: tf.Graph) -> dict[str, int]:
    """A topological order: an op's inputs are there before it."""
    return {op.name: number for number, op in enumerate(graph.get_operations())}


def reads_variable(op: tf.Operation) -> bool:
    """Whether an op's output is the value of a variable."""
    return op.type in _READS_VARIABLE


def is_source(op: tf.Operation) -> bool:
    """Whether an op brings something new into a step: data, random numbers, what Python code gives."""
    if op.type in _PLACEHOLDERS:
        return True
    if not op.op_def.is_stateful or reads_variable(op) or op.type in _CALLS:
        return False
    return not any(tensor.dtype in {tf.resource, tf.variant} for tensor in [*op.inputs, *op.outputs])


def sources_of(targets: Iterable[tf.Tensor]) -> list[tf.Tensor]:
    """The tensors that sources give to what the targets depend on, in the order they were made."""
    targets = list(targets)
    ops = ancestors(targets)
    used = {id(tensor): tensor for op in ops for tensor in op.inputs}
    used.update({id(tensor): tensor for tensor in targets})
    found = [tensor for tensor in used.values() if is_source(tensor.op)]
    order = creation_order(targets[0].graph) if targets else {}
    return sorted(found, key=lambda tensor: (order[tensor.op.name], tensor.value_index))
