"""Agents that learn by acting in environments: models, their objectives, and trainers."""

from ._batch_a3c import BatchA3CTrainer, Simulators
from ._default_agents import DefaultPolicyModel, DefaultQModel, DQNSettings, PPOSettings
from ._dqn import DQNTrainer, LinearEpsilon
from ._environments import Episode
from ._on_policy import A2CObjective, A2CTrainer, PolicyObjective, PPOObjective, PPOTrainer
from ._policy_evaluator import PolicyEvaluator, play_episodes
from ._policy_model import Categorical, DiagonalGaussian, Distribution, MultiCategorical, PolicyModel
from ._protocols import EnvironmentState, Memory, Rollout, VectorEnvironments
from ._q_model import DoubleQ, MaxQ, QModel, QObjective, TargetAverage, TargetCopy, dueling
from ._v_trace import VTrace, VTraceObjective, v_trace

__all__ = [
    "A2CObjective",
    "A2CTrainer",
    "BatchA3CTrainer",
    "Categorical",
    "DQNSettings",
    "DQNTrainer",
    "DefaultPolicyModel",
    "DefaultQModel",
    "DiagonalGaussian",
    "Distribution",
    "DoubleQ",
    "EnvironmentState",
    "Episode",
    "LinearEpsilon",
    "MaxQ",
    "Memory",
    "MultiCategorical",
    "PPOObjective",
    "PPOSettings",
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
