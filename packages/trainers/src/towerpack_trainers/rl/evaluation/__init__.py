"""Evaluation of agents: seeded episodes in separate environments, their returns, and videos."""

from ._play_episodes import play_episodes
from ._policy_evaluator import PolicyEvaluator

__all__ = ["PolicyEvaluator", "play_episodes"]
