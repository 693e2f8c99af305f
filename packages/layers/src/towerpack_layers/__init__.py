"""Symbolic layers for graph-mode TensorFlow: `argscope`, `LinearWrap` and the tower context."""

from towerpack_layers._tower import TowerContext, get_current_tower_context

__all__ = ["TowerContext", "get_current_tower_context"]
