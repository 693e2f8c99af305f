"""Agents that learn action values from a memory: models, objectives, target networks, and DQN."""

from ._dqn_trainer import DQNTrainer
from ._dueling import dueling
from ._exploration import LinearEpsilon
from ._q_model import QModel
from ._q_objectives import DoubleQ, MaxQ, QObjective
from ._target_network import TargetAverage, TargetCopy

__all__ = [
    "DQNTrainer",
    "DoubleQ",
    "LinearEpsilon",
    "MaxQ",
    "QModel",
    "QObjective",
    "TargetAverage",
    "TargetCopy",
    "dueling",
]
