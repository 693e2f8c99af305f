"""The tower context: what one replica of a model may know about itself."""

from ._tower_context import TowerContext, get_current_tower_context, resolve_training

__all__ = ["TowerContext", "get_current_tower_context", "resolve_training"]
