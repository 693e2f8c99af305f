"""Tensors that the first training tower makes, and those that share its variables use as well.

Towers run side by side in a step. If one tower changed a variable while another one read it, what a step does
would depend on which of the two was faster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow.compat.v1 as tf

from ._graph_notes import graph_notes

__all__ = ["place_of_body", "shared_by_towers"]


def shared_by_towers(purpose: str, make: Callable[[], Sequence[tf.Tensor]]) -> list[tf.Tensor]:
    """Returns tensors that are computed once in a step, however many towers and layers ask for them.

    So a value that each step reads and then changes is read once, before the change. In a body of control
    flow, the tensors are of this body.

    Args:
        purpose: what the tensors are, and of which variable; towers with variables of their own have others.
        make: makes them, where they are asked for first.

    Returns:
        The tensors that `make` has returned for this purpose in this place, then or now.
    """
    graph, made = tf.get_default_graph(), graph_notes().shared
    key = (purpose, *place_of_body())
    if key not in made:
        made[key] = [tensor.name for tensor in make()]
    return [graph.get_tensor_by_name(name) for name in made[key]]


def place_of_body() -> tuple[str, str]:
    """Returns names of the body of control flow that ops are added to, within which ops can wait."""
    graph = tf.get_default_graph()
    context = graph._get_control_flow_context()
    return getattr(graph, "name", ""), "" if context is None else context.name
