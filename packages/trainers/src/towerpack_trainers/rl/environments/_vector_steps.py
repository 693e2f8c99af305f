"""Steps in vector environments, with the same results in all autoreset modes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, final

import numpy as np

from ..._errors import ConfigError, EnvironmentStepError
from .._protocols import VectorEnvironments
from .._spaces import ActionSpec
from ._finished_episodes import FinishedEpisodes

__all__ = ["Transitions", "VectorSteps"]


@final
class Transitions(NamedTuple):
    """One step of each environment. All arrays have the environments as their first axis.

    Attributes:
        reward: float.
        terminated: bool, whether the episode has terminated.
        truncated: bool, whether it was truncated.
        next_observation: the observation after the step; at the end of an episode, its last observation.
        valid: bool; False if the step only reset the environment, as in autoreset mode "NextStep".
    """

    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    next_observation: np.ndarray
    valid: np.ndarray


@final
class VectorSteps:
    """Steps some environments, in any of gymnasium's three autoreset modes.

    Args:
        envs: the environments.
        action: the spec of their actions in the graph.
        episodes: the episode counter; None: a new one.
        first: the number of the first environment in the counter.

    Attributes:
        envs: the given environments.
        mode: the autoreset mode: "NEXT_STEP", "SAME_STEP" or "DISABLED".
        observation: the next observations for the agent.
        episodes: the returns of the finished episodes.

    Raises:
        ConfigError: the environments have an unknown autoreset mode.
    """

    def __init__(
        self,
        envs: VectorEnvironments,
        action: ActionSpec,
        episodes: FinishedEpisodes | None = None,
        first: int = 0,
    ) -> None:
        self.envs, self._action, self._first = envs, action, first
        self.mode = _autoreset_mode(envs)
        self.episodes = FinishedEpisodes(envs.num_envs) if episodes is None else episodes
        self._resets_next = np.zeros(envs.num_envs, bool)
        self._shape = (envs.num_envs, *envs.single_observation_space.shape)
        self._dtype = np.dtype(envs.single_observation_space.dtype)
        self._steps = 0
        self._sent: np.ndarray | None = None
        self._all_valid = np.ones(envs.num_envs, bool)

    @property
    def resets_by_next_step(self) -> bool:
        """Whether autoreset mode is NEXT_STEP."""
        return self.mode == "NEXT_STEP"

    def reset(self, seed: int) -> None:
        """Begins new episodes.

        Args:
            seed: the seed for the environments' `reset`.

        Raises:
            EnvironmentStepError: an environment failed, or returned an invalid value.
        """
        self._resets_next = np.zeros(self.envs.num_envs, bool)
        self._sent = None
        self.episodes.begin_anew(self._first, self.envs.num_envs)
        self.observation = self._reset(seed=seed)

    def send(self, actions: np.ndarray) -> None:
        """Begins a step if the environments support asynchronous steps; otherwise `receive` makes it.

        Args:
            actions: the actions from the graph.

        Raises:
            EnvironmentStepError: an environment failed.
        """
        actions = self._action.for_environment(actions)
        self._steps += 1
        if hasattr(self.envs, "send"):
            with self._naming("step"):
                self.envs.send(actions)
        self._sent = actions

    def receive(self) -> Transitions:
        """Returns the result of the step that was sent, and stores the new observations.

        Raises:
            EnvironmentStepError: an environment failed, or returned an invalid value.
        """
        assert self._sent is not None
        with self._naming("step"):
            result = self.envs.recv() if hasattr(self.envs, "recv") else self.envs.step(self._sent)
            observation, reward, terminated, truncated, infos = result
        self._sent = None
        observation, reward = self._checked(observation), self._checked_rewards(reward)
        valid = ~self._resets_next if self._resets_next.any() else self._all_valid
        terminated, truncated = self._flags("terminated", terminated), self._flags("truncated", truncated)
        ended = terminated | truncated
        self.episodes.count(reward, ended, valid, self._first)
        after = observation
        if self.mode == "NEXT_STEP":
            self._resets_next = ended
        elif ended.any():
            after = self._last_observations(observation, ended, infos)
            if self.mode == "DISABLED":
                observation = self._reset(options={"reset_mask": ended})
        self.observation = observation
        return Transitions(reward, terminated, truncated, after, valid)

    def arrays(self) -> dict[str, np.ndarray]:
        """Returns the state apart from that of environments and episodes, as arrays."""
        return {"observation": self.observation, "resets_next": self._resets_next}

    def load_arrays(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Restores the return value of `arrays`."""
        self.observation, self._resets_next = arrays["observation"], arrays["resets_next"]

    def _reset(self, **arguments: Any) -> np.ndarray:
        with self._naming("reset before step"):
            observation, _ = self.envs.reset(**arguments)
        return self._checked(observation)

    @contextlib.contextmanager
    def _naming(self, call: str) -> Iterator[None]:
        """Adds the step to errors of the environments, unless the error already names it."""
        try:
            yield
        except Exception as error:
            if type(error).__module__.startswith("towerpack_"):
                raise
            number = max(self._steps, 1)
            count, kind = self.envs.num_envs, type(self.envs).__name__
            which = f"environment {self._first}" if count == 1 else f"one of {count} environments"
            raise EnvironmentStepError(
                f"{which.capitalize()} of {kind} failed in {call} {number}: {type(error).__name__}: {error}"
                f"{'' if count == 1 else '. Use towerpack_dataflow.envs.ProcessVectorEnv to see which one.'}"
            ) from error

    def _last_observations(self, observation: np.ndarray, ended: np.ndarray, infos: Any) -> np.ndarray:
        if self.mode == "DISABLED":
            return observation
        if "final_obs" not in infos:
            number = self._first + int(np.argmax(ended))
            raise EnvironmentStepError(
                f"Environment {number}, step {self._steps}: its episode has ended, and the infos of "
                'autoreset mode "SameStep" have no "final_obs", which the next value requires; they have '
                f"{sorted(infos)}."
            )
        last = observation.copy()
        for index in np.flatnonzero(ended):
            last[index] = infos["final_obs"][index]
        return last

    def _checked(self, observation: Any) -> np.ndarray:
        array = np.asarray(observation)
        if array.shape != self._shape or not _becomes(array.dtype, self._dtype):
            raise EnvironmentStepError(
                f"Step {self._steps}: the environments returned observations of shape {array.shape} and "
                f"dtype {array.dtype}; their spaces declare {self._shape} and {self._dtype}."
            )
        return array

    def _checked_rewards(self, reward: Any) -> np.ndarray:
        array = np.asarray(reward)
        if array.shape != self._shape[:1]:
            raise EnvironmentStepError(
                f"Step {self._steps}: the environments returned rewards of shape {array.shape}; expected one "
                f"for each of {self.envs.num_envs} environments."
            )
        if not np.isfinite(array).all():
            number = int(np.argmin(np.isfinite(array)))
            raise EnvironmentStepError(
                f"Environment {self._first + number}, step {self._steps}: the reward is {array[number]}; "
                "expected a finite number. Fix the environment, or use a wrapper that replaces such rewards."
            )
        return array

    def _flags(self, name: str, flags: Any) -> np.ndarray:
        array = np.asarray(flags)
        if array.shape != self._shape[:1] or array.dtype != bool:
            raise EnvironmentStepError(
                f"Step {self._steps}: the environments returned {name} of shape {array.shape} and dtype "
                f"{array.dtype}; expected a bool for each of {self.envs.num_envs} environments."
            )
        return array


def _becomes(received: np.dtype[Any], declared: np.dtype[Any]) -> bool:
    return received == declared or np.can_cast(received, declared, "same_kind")


def _autoreset_mode(envs: VectorEnvironments) -> str:
    mode = envs.metadata.get("autoreset_mode", "NextStep")
    name = str(getattr(mode, "name", mode)).replace("_", "").lower()
    known = {"nextstep": "NEXT_STEP", "samestep": "SAME_STEP", "disabled": "DISABLED"}
    if name not in known:
        raise ConfigError(
            f"The environments have the autoreset mode {mode!r}; expected one of gymnasium's: NextStep, "
            "SameStep, Disabled."
        )
    return known[name]
