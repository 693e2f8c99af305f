"""Tensors created by the first training tower and used by all towers that share its variables.

Towers run concurrently in a step. If one tower changed a variable while another one read it, the result would
depend on their timing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow.compat.v1 as tf

from ._graph_notes import graph_notes

__all__ = ["place_of_body", "shared_by_towers"]


def shared_by_towers(purpose: str, make: Callable[[], Sequence[tf.Tensor]]) -> list[tf.Tensor]:
    """Returns tensors that are computed once per step, for all towers and layers that request them.

    So a value that each step reads and then changes is read once, before the change. In a body of control
    flow, the tensors belong to this body.

    Args:
        purpose: a key of the tensors with the name of their variable; towers with separate variables have
            separate tensors.
        make: creates the tensors at the first request.

    Returns:
        The tensors that `make` returned for this purpose in this place, now or earlier.
    """
    graph, made = tf.get_default_graph(), graph_notes().shared
    key = (purpose, *place_of_body())
    if key not in made:
        made[key] = [tensor.name for tensor in make()]
    return [graph.get_tensor_by_name(name) for name in made[key]]


def place_of_body() -> tuple[str, str]:
    """Returns the names of the current control flow body, within which ops can wait for each other."""
    graph = tf.get_default_graph()
    context = graph._get_control_flow_context()
    return getattr(graph, "name", ""), "" if context is None else context.name
