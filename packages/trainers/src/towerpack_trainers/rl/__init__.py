"""Agents that learn by acting in environments: models, their objectives, and trainers."""

from ._distributions import Categorical, DiagonalGaussian, Distribution
from ._objectives import A2CObjective, PolicyObjective, PPOObjective
from ._on_policy_trainers import A2CTrainer, PPOTrainer
from ._policy_model import PolicyModel
from ._protocols import EnvironmentState, Memory, Rollout, VectorEnvironments
from .environments import Episode
from .evaluation import PolicyEvaluator, play_episodes

__all__ = [
    "A2CObjective",
    "A2CTrainer",
    "Categorical",
    "DiagonalGaussian",
    "Distribution",
    "EnvironmentState",
    "Episode",
    "Memory",
    "PPOObjective",
    "PPOTrainer",
    "PolicyEvaluator",
    "PolicyModel",
    "PolicyObjective",
    "Rollout",
    "VectorEnvironments",
    "play_episodes",
]
