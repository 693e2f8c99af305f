"""Finds, in a finished graph, the gradients that an optimizer applies."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import final

import attrs
import tensorflow.compat.v1 as tf

__all__ = ["AppliedGradient", "find_applied_gradients"]

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
