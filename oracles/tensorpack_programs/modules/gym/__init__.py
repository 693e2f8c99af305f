"""A stand-in for OpenAI's gym 0.21 over gymnasium and MinAtar: `step` returns four values, `reset` one."""

from __future__ import annotations

from typing import Any

import ale_py
import gymnasium
import numpy as np
from gymnasium import spaces

__all__ = ["Env", "ObservationWrapper", "Wrapper", "make", "spaces"]
__version__ = "0.21.0"

gymnasium.register_envs(ale_py)


class Env:
    """An environment of its own."""

    action_space: Any
    observation_space: Any

    @property
    def unwrapped(self) -> Any:
        """The environment below all wrappers."""
        return self

    def reset(self) -> Any:
        """Begins an episode, and returns the observation."""
        raise NotImplementedError

    def step(self, action: Any) -> Any:
        """Returns the observation, the reward, whether the episode is over, and a dict."""
        raise NotImplementedError


class Wrapper(Env):
    """Changes another environment."""

    def __init__(self, env: Any) -> None:
        self.env = env

    def __getattr__(self, name: str) -> Any:
        return getattr(self.env, name)

    @property
    def unwrapped(self) -> Any:
        return self.env.unwrapped

    def reset(self) -> Any:
        return self.env.reset()

    def step(self, action: Any) -> Any:
        return self.env.step(action)


class ObservationWrapper(Wrapper):
    """Changes the observations of another environment by `observation`."""

    def reset(self) -> Any:
        return self.observation(self.env.reset())  # type: ignore[attr-defined]

    def step(self, action: Any) -> Any:
        observation, *rest = self.env.step(action)
        return (self.observation(observation), *rest)  # type: ignore[attr-defined]


class _OfGymnasium(Env):
    """An environment of gymnasium with the methods of gym."""

    def __init__(self, env: Any) -> None:
        self._env = env
        self.action_space, self.observation_space = env.action_space, env.observation_space

    def get_action_meanings(self) -> list[str]:
        """Returns the names of the actions."""
        return list(self._env.unwrapped.get_action_meanings())

    def reset(self) -> Any:
        return self._env.reset()[0]

    def step(self, action: Any) -> Any:
        observation, reward, terminated, truncated, info = self._env.step(int(action))
        old = {"ale.lives": info["lives"]} if "lives" in info else {}
        return observation, reward, terminated or truncated, {**info, **old}


class _OfMinAtar(Env):
    """A game of MinAtar, as a picture of 10 by 10 pixels with three colours."""

    def __init__(self, name: str) -> None:
        from minatar import Environment

        self._env = Environment(name)
        self._actions = self._env.minimal_action_set()
        self.action_space = spaces.Discrete(len(self._actions))
        self.observation_space = spaces.Box(0, 255, (10, 10, 3), np.uint8)

    def get_action_meanings(self) -> list[str]:
        """Returns the names of the actions; none is needed to begin."""
        return [f"ACTION{number}" for number in self._actions]

    def reset(self) -> Any:
        self._env.reset()
        return self._picture()

    def step(self, action: Any) -> Any:
        reward, over = self._env.act(self._actions[int(action)])
        return self._picture(), float(reward), bool(over), {}

    def _picture(self) -> Any:
        # Breakout: the paddle, the ball and the bricks. Where the ball was is in the frame before.
        state = self._env.state()
        return np.ascontiguousarray(state[..., [0, 1, -1]]).astype(np.uint8) * 255


def make(name: str, **options: Any) -> Env:
    """Returns an environment of gymnasium, or of MinAtar, as `MinAtar/breakout`."""
    if name.startswith("MinAtar/"):
        return _OfMinAtar(name.removeprefix("MinAtar/"))
    return _OfGymnasium(gymnasium.make(name, **options))
