"""`RolloutBatch`: steps of a rollout with the values for an update; computation of advantages."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ._array_specs import Nested

__all__ = ["RolloutBatch", "advantages"]


class RolloutBatch(NamedTuple):
    """Steps of a rollout in any order; the first axis of all arrays is the batch.

    Attributes:
        observation: observation before the step; an array, or a dict of arrays.
        action: action of the step.
        value: float32, the estimated value before the step.
        log_probability: float32, of the action at the time it was taken.
        advantage: float32, by GAE.
        value_target: float32, advantage plus value.
    """

    observation: Nested
    action: Nested
    value: np.ndarray
    log_probability: np.ndarray
    advantage: np.ndarray
    value_target: np.ndarray

    def part(self, begin: int, end: int) -> RolloutBatch:
        """Returns the steps at these positions, as views."""
        chosen = slice(begin, end)
        return RolloutBatch(
            observation=_part(self.observation, chosen),
            action=_part(self.action, chosen),
            value=self.value[chosen],
            log_probability=self.log_probability[chosen],
            advantage=self.advantage[chosen],
            value_target=self.value_target[chosen],
        )


def advantages(
    reward: np.ndarray, value: np.ndarray, next_value: np.ndarray, ended: np.ndarray, gamma: float, lam: float
) -> np.ndarray:
    """Returns the generalised advantage estimates (Schulman et al. 2016, equation 16).

    Args:
        reward: reward of each step, of shape (steps, environments).
        value: value of the observation before it.
        next_value: value of the observation after it; 0 after a termination, and that of the last observation
            of an episode after a truncation.
        ended: whether the episode ends with the step, in either way.
        gamma: discount of rewards.
        lam: discount of estimates over more steps.

    Returns:
        float32, of the same shape.

    Example:
        >>> one = np.ones((2, 1), np.float32)
        >>> advantages(one, 0 * one, 0 * one, one > 2, gamma=0.5, lam=1.0).tolist()
        [[1.5], [1.0]]
    """
    delta = reward + np.float32(gamma) * next_value - value
    decay = np.where(ended, np.float32(0), np.float32(gamma * lam))
    found = np.empty_like(delta)
    following = np.zeros_like(delta[0])
    for step in range(len(delta) - 1, -1, -1):
        following = delta[step] + decay[step] * following
        found[step] = following
    return np.asarray(found)


def _part(arrays: Nested, chosen: slice) -> Nested:
    if isinstance(arrays, dict):
        return {name: array[chosen] for name, array in arrays.items()}
    return arrays[chosen]
