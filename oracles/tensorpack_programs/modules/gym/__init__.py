"""A stand-in for OpenAI's gym 0.21, with one game: catch what falls."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import numpy as np

__all__ = ["ObservationWrapper", "Wrapper", "make"]
__version__ = "0.21.0"

_HEIGHT, _WIDTH, _CELL = 210, 160, 16


class _Actions:
    n = 4

    def sample(self) -> int:
        """Returns a random action."""
        return random.randrange(self.n)


class _Catch:
    """A ball falls; a paddle moves right or left to be below it."""

    action_space = _Actions()
    observation_space = SimpleNamespace(shape=(_HEIGHT, _WIDTH, 3), dtype=np.uint8)

    @property
    def unwrapped(self) -> _Catch:
        return self

    def get_action_meanings(self) -> list[str]:
        """Returns the names of the actions, those of Breakout."""
        return ["NOOP", "FIRE", "RIGHT", "LEFT"]

    def reset(self) -> np.ndarray:
        """Begins an episode of five balls."""
        self._balls = 5
        self._paddle = 4
        self._drop()
        return self._picture()

    def _drop(self) -> None:
        self._row, self._column = 0, random.randrange(_WIDTH // _CELL)

    def step(self, action: int) -> tuple[np.ndarray, float, bool, dict[str, Any]]:
        """Moves the paddle and the ball."""
        self._paddle = int(np.clip(self._paddle + {2: 1, 3: -1}.get(int(action), 0), 0, _WIDTH // _CELL - 1))
        self._row += 1
        reward = 0.0
        if self._row == _HEIGHT // _CELL - 1:
            reward = 1.0 if abs(self._column - self._paddle) <= 1 else -1.0
            self._balls -= 1
            self._drop()
        return self._picture(), reward, self._balls == 0, {}

    def _picture(self) -> np.ndarray:
        picture = np.zeros((_HEIGHT, _WIDTH, 3), np.uint8)
        top, left = self._row * _CELL, self._column * _CELL
        picture[top : top + _CELL, left : left + _CELL] = 255
        picture[-_CELL:, self._paddle * _CELL : (self._paddle + 1) * _CELL] = (200, 72, 72)
        return picture


class Wrapper:
    """Changes another environment."""

    def __init__(self, env: Any) -> None:
        self.env = env

    def __getattr__(self, name: str) -> Any:
        return getattr(self.env, name)

    def reset(self) -> Any:
        return self.env.reset()

    def step(self, action: int) -> Any:
        return self.env.step(action)


class ObservationWrapper(Wrapper):
    """Changes the observations of another environment by `observation`."""

    def reset(self) -> Any:
        return self.observation(self.env.reset())  # type: ignore[attr-defined]

    def step(self, action: int) -> Any:
        observation, *rest = self.env.step(action)
        return (self.observation(observation), *rest)  # type: ignore[attr-defined]


def make(_name: str, **_options: Any) -> _Catch:
    """Returns the game."""
    return _Catch()
