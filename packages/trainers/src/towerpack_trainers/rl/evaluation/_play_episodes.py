"""Plays episodes whose beginnings depend on their numbers alone."""

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

# The limit of Atari games, 108,000 frames, of which each step is four.
MOST_STEPS = 27_000

Act = Callable[[np.ndarray], np.ndarray]


def play_episodes(
    env: Any, act: Act, episodes: int, *, seed: int, max_steps: int = MOST_STEPS
) -> list[Episode]:
    """Plays a number of whole episodes.

    All environments begin an episode together, and those that end first wait for the others, so that short
    episodes do not count more often than long ones. With `n` environments, the reset before episodes
    `n * i` to `n * i + n - 1` is seeded by `seed + n * i`, which gymnasium counts up from one environment to
    the next; so a single environment begins episode `i` by `seed + i`.

    Args:
        env: a gymnasium environment or vector environment; it is reset before it is stepped.
        act: returns an action for each of a batch of observations.
        episodes: how many to play.
        seed: of the first episode.
        max_steps: of one episode. One that has not ended then is cut there, with a warning: its return is
            that of the steps so far.

    Returns:
        The return and the length of each episode, in the order of their seeds.

    Raises:
        ConfigError: an argument cannot work, or the spaces are none of an agent's.
        EnvironmentStepError: an environment failed, or returned what cannot be.

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
            "%d of %d episodes had not ended after %d steps, and were cut there. Raise max_steps, or limit "
            "the environment itself by gymnasium's TimeLimit.",
            cut,
            episodes,
            max_steps,
        )
    return played


def cut_episodes(envs: Any, act: Act, episodes: int, seed: int, max_steps: int) -> tuple[list[Episode], int]:
    """Plays as `play_episodes` does; returns the episodes, and how many of them were cut."""
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
