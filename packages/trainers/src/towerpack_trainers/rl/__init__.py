"""Agents that learn by acting in environments: models, their objectives, and trainers."""

from ._distributions import Categorical, DiagonalGaussian, Distribution
from ._objectives import A2CObjective, PolicyObjective, PPOObjective
from ._on_policy_trainers import A2CTrainer, PPOTrainer
from ._policy_model import PolicyModel
from ._protocols import EnvironmentState, Memory, Rollout, VectorEnvironments
from .asynchronous import BatchA3CTrainer, Simulators, VTrace, VTraceObjective, v_trace
from .environments import Episode
from .evaluation import PolicyEvaluator, play_episodes

__all__ = [
    "A2CObjective",
    "A2CTrainer",
    "BatchA3CTrainer",
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
    "Simulators",
    "VTrace",
    "VTraceObjective",
    "VectorEnvironments",
    "play_episodes",
    "v_trace",
]
