"""Changes the nodes of a copied step so that it takes less time, with the same results.

The updates of a trainer wait until all gradients are computed: no variable may change while a gradient still
reads it. The copies of a step know all its ops, so each update waits only for those that read its own
variable. It then runs in parallel with the gradients of earlier layers, while a thread would be idle.
"""

from __future__ import annotations

import functools
import operator
from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple, final

import tensorflow.compat.v1 as tf

from towerpack_callbacks.graph import find_applied_gradients

__all__ = ["colocated_with", "op_name", "optimized", "with_inputs"]

# Ops without an effect, which are removed if no op takes their output.
_WITHOUT_EFFECT = frozenset({"Identity", "NoOp", "Shape", "ShapeN"})


def optimized(nodes: Sequence[Any], graph: tf.Graph, kept: Collection[str]) -> list[Any]:
    """Returns the nodes of a step with constant shapes, and with updates that wait for their own variables.

    Args:
        nodes: the nodes, without cycles.
        graph: the graph with the step.
        kept: names of nodes that must remain.
    """
    kept = {*kept, *(name for node in nodes for name in colocated_with(node))}
    nodes = _without_unused(_with_constant_shapes(nodes, graph), kept)
    return _without_unused(_with_early_updates(nodes, graph), kept)


def _with_constant_shapes(nodes: Sequence[Any], graph: tf.Graph) -> list[Any]:
    """Replaces known shapes by constants.

    TensorFlow does so as well, but its constants wait for the tensor, which thereby makes two ops ready: the
    constant and the network's next op. One of them is then passed to another thread.
    """
    constants, names = [], {}
    for node in nodes:
        if node.op in {"Shape", "ShapeN"}:
            for number, tensor in enumerate(graph.get_operation_by_name(node.name).inputs):
                if tensor.shape.is_fully_defined():
                    constants.append(_constant_shape(node, number, tensor.shape))
                    names[f"{node.name}:{number}"] = constants[-1].name
    return [*constants, *(_renamed(node, names) for node in nodes)]


def _constant_shape(node: Any, number: int, shape: tf.TensorShape) -> Any:
    dtype = node.attr["out_type"].type
    constant = type(node)(op="Const", name=f"{node.name}/known_{number}", device=node.device)
    constant.attr["dtype"].type = dtype
    constant.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(shape.as_list(), dtype))
    return constant


def _renamed(node: Any, names: dict[str, str]) -> Any:
    inputs = [names.get(name if ":" in name else f"{name}:0", name) for name in node.input]
    return node if inputs == list(node.input) else with_inputs(node, inputs)


@final
class _Update(NamedTuple):
    """A gated update.

    Attributes:
        node: its node.
        handles: the handles of its variable and of the optimizer's slots.
        place: the number of the input with the gradient.
        gradient: the gradient before the gate.
        gate: the names of the ops that the gradient waits for.
    """

    node: Any
    handles: Sequence[str]
    place: int
    gradient: str
    gate: frozenset[str]


def _with_early_updates(nodes: Sequence[Any], graph: tf.Graph) -> list[Any]:
    """Lets each update wait for the ops that read its variable or slots, instead of for all gradients.

    It also waits for the ops that take a value read from the variable: TensorFlow copies the variable if
    such a value is still needed.
    """
    if any(node.attr["T"].type == tf.resource.as_datatype_enum for node in nodes if "T" in node.attr):
        return list(nodes)  # the readers of an Identity of a handle are not found
    if len({node.device for node in nodes if node.device}) > 1:
        return list(nodes)  # to wait for an op of another device takes a transfer, and the gate only one
    by_name = {node.name: node for node in nodes}
    updates = _gated_updates(by_name, graph)
    bits = {name: 1 << number for number, name in enumerate(by_name)}
    before = _ancestors(by_name, bits)
    updating = sum(bits[node.name] for node in nodes if _is_update(node))
    after_update = {name for name in by_name if before[name] & updating}
    gradients = {gate: _gradients_of(gate, by_name) for gate in {update.gate for update in updates}}
    consumers = defaultdict(list)
    for node in nodes:
        for name in {op_name(each) for each in node.input if not each.startswith("^")}:
            consumers[name].append(node.name)

    def early(update: _Update) -> Any:
        readers = {name for handle in update.handles for name in consumers[handle]}
        takers = {name for reader in readers for name in (reader, *consumers[reader])}
        others = _waited_for(update.gate, by_name) - gradients[update.gate]
        computed = before[op_name(update.gradient)]
        waits = [name for name in takers - after_update | others if not computed & bits[name]]
        inputs = [*update.node.input, *sorted(f"^{name}" for name in waits)]
        inputs[update.place] = update.gradient
        return with_inputs(update.node, inputs)

    # If an update precedes a gradient, more than one update of a variable may be in the step.
    movable = {gate for gate, names in gradients.items() if names.isdisjoint(after_update)}
    changed = {update.node.name: early(update) for update in updates if update.gate in movable}
    return [changed.get(node.name, node) for node in nodes]


def _gated_updates(by_name: dict[str, Any], graph: tf.Graph) -> list[_Update]:
    found = []
    for applied in find_applied_gradients(graph):
        node = by_name.get(applied.op.name)
        if node is None or node.op.startswith("ResourceSparse"):
            continue
        place = [tensor.name for tensor in applied.op.inputs].index(applied.gradient.name)
        gated = by_name.get(op_name(node.input[place]), node)
        gate = _gate_of(gated)
        if gated.op == "Identity" and gate and all(_is_group(name, by_name) for name in gate):
            handles = [tensor.op.name for tensor in applied.op.inputs if tensor.dtype == tf.resource]
            found.append(_Update(node, handles, place, gated.input[0], gate))
    return found


def _gate_of(node: Any) -> frozenset[str]:
    return frozenset(op_name(name) for name in node.input if name.startswith("^"))


def _is_group(name: str, by_name: dict[str, Any]) -> bool:
    return name in by_name and bool(by_name[name].op == "NoOp")


def _gradients_of(gate: frozenset[str], by_name: dict[str, Any]) -> set[str]:
    gated = [node for node in by_name.values() if node.op == "Identity" and _gate_of(node) == gate]
    return {op_name(node.input[0]) for node in gated}


def _waited_for(gate: frozenset[str], by_name: dict[str, Any]) -> set[str]:
    """Returns the ops in the groups of a gate."""
    waited, names = set(), [*gate]
    while names:
        name = names.pop()
        if _is_group(name, by_name):
            names += _gate_of(by_name[name])
        else:
            waited.add(name)
    return waited


def _is_update(node: Any) -> bool:
    return bool(node.op.startswith(("ResourceApply", "ResourceSparseApply")))


def _ancestors(by_name: dict[str, Any], bits: dict[str, int]) -> dict[str, int]:
    """Returns for each node the bits of itself and of all nodes that it depends on."""
    found: dict[str, int] = {}
    for name in by_name:
        stack = [name]
        while stack:
            inputs = {op_name(each) for each in by_name[stack[-1]].input} & by_name.keys()
            if missing := inputs - found.keys():
                stack += missing
            else:
                name = stack.pop()
                found[name] = functools.reduce(operator.or_, map(found.get, inputs), bits[name])
    return found


def _without_unused(nodes: Sequence[Any], kept: Collection[str]) -> list[Any]:
    """Removes nodes without an effect and without a consumer."""
    while True:
        taken = {*kept, *(op_name(name) for node in nodes for name in node.input)}
        used = [node for node in nodes if node.op not in _WITHOUT_EFFECT or node.name in taken]
        if len(used) == len(nodes):
            return used
        nodes = used


def colocated_with(node: Any) -> list[str]:
    """Returns the names of the ops that a node is placed with."""
    places = node.attr["_class"].list.s if "_class" in node.attr else []
    return [place.decode().removeprefix("loc:@") for place in places]


def op_name(name: str) -> str:
    """Returns the name of the op of a tensor, an op, or a node's input."""
    return name.removeprefix("^").partition(":")[0]


def with_inputs(node: Any, inputs: Sequence[str]) -> Any:
    """Returns a copy of a node with other inputs."""
    copy = type(node)()
    copy.CopyFrom(node)
    del copy.input[:]
    copy.input.extend(inputs)
    return copy
