"""Agents that learn by acting in environments: models, their objectives, and trainers."""

from ._distributions import Categorical, DiagonalGaussian, Distribution
from ._objectives import A2CObjective, PolicyObjective, PPOObjective
from ._on_policy_trainers import A2CTrainer, PPOTrainer
from ._policy_model import PolicyModel
from ._protocols import EnvironmentState, Memory, Rollout, VectorEnvironments
from .asynchronous import BatchA3CTrainer, Simulators, VTrace, VTraceObjective, v_trace
from .environments import Episode
from .evaluation import PolicyEvaluator, play_episodes
from .q_learning import (
    DoubleQ,
    DQNTrainer,
    LinearEpsilon,
    MaxQ,
    QModel,
    QObjective,
    TargetAverage,
    TargetCopy,
    dueling,
)

__all__ = [
    "A2CObjective",
    "A2CTrainer",
    "BatchA3CTrainer",
    "Categorical",
    "DQNTrainer",
    "DiagonalGaussian",
    "Distribution",
    "DoubleQ",
    "EnvironmentState",
    "Episode",
    "LinearEpsilon",
    "MaxQ",
    "Memory",
    "PPOObjective",
    "PPOTrainer",
    "PolicyEvaluator",
    "PolicyModel",
    "PolicyObjective",
    "QModel",
    "QObjective",
    "Rollout",
    "Simulators",
    "TargetAverage",
    "TargetCopy",
    "VTrace",
    "VTraceObjective",
    "VectorEnvironments",
    "dueling",
    "play_episodes",
    "v_trace",
]
