"""One environment with successive episodes, each with a separate seed."""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np

from .._errors import EnvError
from ._space_arrays import SpaceArrays, StepMemory, call_text

__all__ = ["Episodes", "episode_seed"]

_RESULTS = struct.Struct("<d??")  # reward, terminated, truncated


def episode_seed(seed: int, environment: int, episode: int) -> int:
    """Returns the reset seed of an environment for an episode.

    Args:
        seed: seed of the vector environment.
        environment: number of the environment in it.
        episode: number of the episode.

    Returns:
        An integer of 31 bits, hashed by NumPy's `SeedSequence`.

    Example:
        >>> episode_seed(7, environment=0, episode=0) == episode_seed(7, environment=0, episode=1)
        False
    """
    return int(np.random.SeedSequence((seed, environment, episode)).generate_state(1)[0]) >> 1


@final
class Episodes:
    """Steps and resets one environment in a worker, and writes the results to its row in the memory.

    Args:
        env: the environment.
        number: its number among all environments.
        row: its row in the memory.
        memory: memory of the worker.
        mode: the name of the autoreset mode.
        observation, action: the spaces of the environment.
    """

    def __init__(
        self,
        env: Any,
        number: int,
        row: int,
        memory: StepMemory,
        mode: str,
        observation: SpaceArrays,
        action: SpaceArrays,
    ) -> None:
        """Stores the arguments; resets nothing."""
        self._env, self._number, self._row, self._memory = env, number, row, memory
        self._same_step, self._next_step = mode == "SAME_STEP", mode == "NEXT_STEP"
        self._observation, self._action = observation, action
        self._spaces = (env.observation_space, env.action_space)
        self._seed, self._episode, self._steps, self._ended = 0, -1, -1, False
        rows = (array[row : row + 1].reshape(-1) for array in memory.observations)
        self._seen = [part.view(np.uint8).data for part in rows]

    @property
    def place(self) -> str:
        """The current or last call of the environment, for messages."""
        return f"in environment {self._number}, {call_text(self._episode, self._steps)}"

    def begin(self, seed: int, episode: int, options: Mapping[str, Any] | None) -> dict[str, Any]:
        """Starts an episode and returns the environment's info."""
        self._seed, self._episode = seed, episode
        info, memory, row = self._reset(options), self._memory, self._row
        memory.rewards[row] = 0.0
        memory.terminated[row] = memory.truncated[row] = False
        return info

    def replay(
        self,
        seed: int,
        episode: int,
        options: Mapping[str, Any] | None,
        actions: Sequence[np.ndarray],
        last: int,
    ) -> None:
        """Starts an episode and repeats its first `last` actions."""
        self.begin(seed, episode, options)
        for step in range(last):
            self._advance([part[step] for part in actions])

    def advance(self) -> dict[str, Any]:
        """Performs one step of the vector environment for this environment; returns its info."""
        row = self._row
        return self._advance([part[row] for part in self._memory.actions])

    def _advance(self, action: Sequence[Any]) -> dict[str, Any]:
        memory, row = self._memory, self._row
        if self._next_step and self._ended:
            return self.begin(self._seed, self._episode + 1, None)
        self._steps += 1
        memory.step[row] = self._steps
        parts = [part.copy() if isinstance(part, np.ndarray) else part for part in action]
        observation, reward, terminated, truncated, info = self._stepped(self._action.together(parts))
        memory.rewards[row] = reward
        memory.terminated[row] = terminated
        memory.truncated[row] = truncated
        self._ended = terminated or truncated
        if self._same_step and self._ended:
            last = {"final_obs": observation, "final_info": info}
            self._write(observation)  # for its checks
            self._episode += 1
            return {**last, **self._reset(None)}
        self._write(observation)
        self._digest(_RESULTS.pack(reward, terminated, truncated), int(memory.digest[row]))
        return info

    def _stepped(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        made = self._env.step(action)
        if not isinstance(made, tuple) or len(made) != 5:
            received = f"{len(made)} values" if isinstance(made, tuple) else type(made).__name__
            raise self._error(
                f"step() returned {received}", "observation, reward, terminated, truncated, info"
            )
        observation, reward, terminated, truncated, info = made
        try:
            number = float(reward)
        except (TypeError, ValueError):
            raise self._error(f"the reward is {reward!r}", "a number") from None
        if not math.isfinite(number):
            raise self._error(f"the reward is {number}", "a finite number")
        if number != reward:
            raise self._error(f"the reward is {reward!r}", "a number that float64 holds exactly")
        for name, value in (("terminated", terminated), ("truncated", truncated)):
            if not isinstance(value, (bool, np.bool_)):
                raise self._error(f"{name} is {value!r}", "True or False")
        return observation, number, bool(terminated), bool(truncated), self._checked(info)

    def _reset(self, options: Mapping[str, Any] | None) -> dict[str, Any]:
        memory, row = self._memory, self._row
        self._steps, self._ended = -1, False
        memory.step[row], memory.episode[row] = -1, self._episode
        chosen = {} if options is None else {"options": dict(options)}
        made = self._env.reset(seed=episode_seed(self._seed, self._number, self._episode), **chosen)
        if not isinstance(made, tuple) or len(made) != 2:
            raise self._error(f"reset() returned {type(made).__name__}", "a tuple of observation and info")
        self._check_spaces()
        self._write(made[0])
        self._digest(b"", 0)
        return self._checked(made[1])

    def _digest(self, results: bytes, before: int) -> None:
        """Adds a step to the digest of the episode."""
        value = zlib.crc32(results, before)
        for part in self._seen:
            value = zlib.crc32(part, value)
        self._memory.digest[self._row] = value

    def _check_spaces(self) -> None:
        names = ("observation_space", "action_space")
        for name, before, now in zip(
            names, self._spaces, (self._env.observation_space, self._env.action_space)
        ):
            if now is not before and now != before:
                raise self._error(f"{name} has changed to {now}", f"{before}, as at the start")

    def _write(self, observation: Any) -> None:
        row = self._row
        for target, part in zip(self._memory.observations, self._fitting(observation)):
            target[row] = part

    def _fitting(self, observation: Any) -> Sequence[Any]:
        parts = self._observation.parts
        plain = type(observation) is np.ndarray and len(parts) == 1  # the most common case; fast
        if plain and observation.shape == parts[0].shape and observation.dtype == parts[0].dtype:
            return (observation,)
        try:
            return self._observation.fit(observation, lambda part: part.shape)
        except ValueError as error:
            raise self._error(f"the observation has {error}", "a value of its observation space") from None

    def _checked(self, info: Any) -> dict[str, Any]:
        if not isinstance(info, dict):
            raise self._error(f"info is {type(info).__name__}", "a dict")
        return info

    def _error(self, received: str, expected: str) -> EnvError:
        return EnvError(
            f"environment {self._number} broke its own interface {call_text(self._episode, self._steps)}: "
            f"{received}; expected {expected}. gymnasium.utils.env_checker.check_env(env) finds more errors"
        )
