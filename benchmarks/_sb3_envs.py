"""gymnasium's vector environments as Stable-Baselines3 takes them, at as little cost as possible."""

from __future__ import annotations

from typing import Any

import numpy as np
from stable_baselines3.common.vec_env import VecEnv


class VectorEnvs(VecEnv):
    """Passes calls on. The step that only resets an environment counts as one of its next episode."""

    def __init__(self, envs: Any) -> None:
        super().__init__(envs.num_envs, envs.single_observation_space, envs.single_action_space)
        self._envs = envs

    def reset(self) -> np.ndarray:
        return self._envs.reset(seed=0)[0]

    def step_async(self, actions: np.ndarray) -> None:
        self._actions = actions

    def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
        observation, reward, terminated, truncated, _ = self._envs.step(self._actions)
        done = terminated | truncated
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for number in np.flatnonzero(done):
            infos[number] = {
                "terminal_observation": observation[number],
                "TimeLimit.truncated": bool(truncated[number] and not terminated[number]),
            }
        return observation, reward, done, infos

    def close(self) -> None:
        self._envs.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        return [getattr(self._envs, attr_name, None)] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        raise NotImplementedError

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        raise NotImplementedError

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        return [False] * self.num_envs
