"""Plays episodes with initial states that depend only on their numbers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..._argument_checks import at_least
from .._spaces import action_spec
from ..environments import Episode, VectorSteps
from ._one_environment import as_vector

__all__ = ["MOST_STEPS", "Act", "cut_episodes", "play_episodes"]

_log = logging.getLogger("towerpack_trainers")

# The limit of Atari games: 108,000 frames, with four frames in each step.
MOST_STEPS = 27_000

Act = Callable[[np.ndarray], np.ndarray]


def play_episodes(
    env: Any, act: Act, episodes: int, *, seed: int, max_steps: int = MOST_STEPS
) -> list[Episode]:
    """Plays a number of whole episodes.

    All environments begin an episode at the same time, and those that end early wait for the others, so that
    short episodes do not count more often than long ones. With `n` environments, the reset before episodes
    `n * i` to `n * i + n - 1` has the seed `seed + n * i`, which gymnasium increments for each further
    environment; so a single environment begins episode `i` with `seed + i`.

    Args:
        env: a gymnasium environment or vector environment; it is reset first.
        act: returns an action for each observation of a batch.
        episodes: the number of episodes.
        seed: the seed of the first episode.
        max_steps: the maximum number of steps of an episode. A longer episode is truncated, with a warning:
            its return is that of the steps so far.

    Returns:
        The return and the length of each episode, in the order of their seeds.

    Raises:
        ConfigError: an argument is invalid, or agents do not support the spaces.
        EnvironmentStepError: an environment failed, or returned an invalid value.

    Example:
        ```python
        act = lambda observations: np.zeros(len(observations), np.int64)
        returns = [episode.total for episode in play_episodes(env, act, 10, seed=0)]
        ```
    """
    episodes = at_least("play_episodes", "episodes", episodes)
    max_steps = at_least("play_episodes", "max_steps", max_steps)
    played, cut = cut_episodes(as_vector(env), act, episodes, seed, max_steps)
    if cut:
        _log.warning(
            "%d of %d episodes had not ended after %d steps and were truncated. Raise max_steps, or limit "
            "the environment itself with gymnasium's TimeLimit.",
            cut,
            episodes,
            max_steps,
        )
    return played


def cut_episodes(envs: Any, act: Act, episodes: int, seed: int, max_steps: int) -> tuple[list[Episode], int]:
    """Plays episodes as `play_episodes` does; returns them, and the number of truncated ones."""
    steps = VectorSteps(envs, action_spec(envs.single_action_space))
    played: list[Episode] = []
    cut = 0
    while len(played) < episodes:
        steps.reset(seed + len(played))
        together, unfinished = _play_together(
            steps, act, min(envs.num_envs, episodes - len(played)), max_steps
        )
        played += together
        cut += unfinished
    return played, cut


def _play_together(steps: VectorSteps, act: Act, count: int, max_steps: int) -> tuple[Iterator[Episode], int]:
    """Plays an episode in each environment; returns those of the first `count` environments."""
    total, length = np.zeros(steps.envs.num_envs), np.zeros(steps.envs.num_envs, np.int64)
    playing = np.arange(steps.envs.num_envs) < count
    for _ in range(max_steps):
        steps.send(act(steps.observation))
        happened = steps.receive()
        total += np.where(playing, happened.reward, 0)
        length += playing
        playing &= ~(happened.terminated | happened.truncated)
        if not playing.any():
            break
    episodes = (Episode(float(total[number]), int(length[number])) for number in range(count))
    return episodes, int(np.count_nonzero(playing))
