"""The tower context: the properties of one replica of a model."""

from ._keras_in_towers import adapting_keras
from ._tower_context import (
    TowerContext,
    explain_missing,
    get_current_tower_context,
    graph_notes,
    in_nested_graph,
    outermost_graph,
    place_of_body,
    resolve_training,
    shared_by_towers,
)

__all__ = [
    "TowerContext",
    "adapting_keras",
    "explain_missing",
    "get_current_tower_context",
    "graph_notes",
    "in_nested_graph",
    "outermost_graph",
    "place_of_body",
    "resolve_training",
    "shared_by_towers",
]
