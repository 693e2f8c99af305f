"""A single gymnasium environment as a vector environment, optionally recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any, final

import numpy as np

from ..._errors import ConfigError
from ...distributed import MissingExtraError

__all__ = ["OneEnvironment", "as_vector", "recorded"]


@final
class OneEnvironment:
    """Steps a `gymnasium.Env` as a vector environment with one environment, in autoreset mode "NextStep".

    Args:
        env: the environment.
    """

    num_envs = 1

    def __init__(self, env: Any) -> None:
        self._env, self._ended = env, False
        self.metadata: dict[str, Any] = {"autoreset_mode": "NextStep"}
        self.single_observation_space, self.single_action_space = env.observation_space, env.action_space

    def reset(
        self, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begins an episode."""
        self._ended = False
        observation, _ = self._env.reset(seed=seed, options=options)
        return np.asarray(observation)[None], {}

    def step(
        self, actions: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Makes one step; after an episode's end, begins the next one instead."""
        if self._ended:
            result: Any = (*self._env.reset()[:1], 0.0, False, False)
            self._ended = False
        else:
            result = self._env.step(actions[0])
            self._ended = bool(result[2] or result[3])
        observation, reward, terminated, truncated = result[:4]
        flags = np.array([terminated], bool), np.array([truncated], bool)
        return np.asarray(observation)[None], np.array([reward], np.float64), *flags, {}

    def close(self) -> None:
        """Closes the environment."""
        self._env.close()


def as_vector(env: Any) -> Any:
    """Returns vector environments unchanged, and wraps a single environment as a vector environment.

    Raises:
        ConfigError: `env` is neither.
    """
    if hasattr(env, "num_envs"):
        return env
    if hasattr(env, "reset") and hasattr(env, "step") and hasattr(env, "observation_space"):
        return OneEnvironment(env)
    raise ConfigError(
        f"Episodes need a gymnasium environment or vector environment; received {env!r}. Pass a function "
        'that makes one, such as `lambda: gymnasium.make("CartPole-v1")`.'
    )


def recorded(env: Any, directory: Path, every: int) -> Any:
    """Wraps an environment with gymnasium's `RecordVideo`.

    Args:
        env: a single environment that renders arrays.
        directory: the directory of the files.
        every: the period of recorded episodes, starting with the first one.

    Raises:
        MissingExtraError: gymnasium or moviepy is not installed; they come with the extra `video`.
        ConfigError: the environment cannot be recorded.
    """
    try:
        import moviepy as _moviepy  # noqa: F401
        from gymnasium.wrappers import RecordVideo
    except ImportError as error:
        raise MissingExtraError.of("video", error) from error
    try:
        return RecordVideo(env, str(directory), episode_trigger=lambda number: number % every == 0)
    except (AttributeError, AssertionError, ValueError) as error:
        raise ConfigError(
            f"{env!r} cannot be recorded: {error} A video needs a single environment that renders images, "
            'such as `gymnasium.make("CartPole-v1", render_mode="rgb_array")`.'
        ) from error
