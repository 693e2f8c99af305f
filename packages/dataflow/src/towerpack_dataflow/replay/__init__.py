"""Memories for reinforcement learning: replay of transitions, and rollouts with advantages."""

from ._replay_buffer import ReplayBuffer
from ._rollout_buffer import RolloutBatch, RolloutBuffer
from ._sampling import PrioritizedSampling, UniformSampling
from ._saved_files import disk_usage
from ._transition_reader import TransitionBatch

__all__ = [
    "PrioritizedSampling",
    "ReplayBuffer",
    "RolloutBatch",
    "RolloutBuffer",
    "TransitionBatch",
    "UniformSampling",
    "disk_usage",
]
