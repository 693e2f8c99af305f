"""Steps in vector environments: what happened, whatever resets the environments whose episodes end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, final

import numpy as np

from .._errors import EnvironmentStepError
from ._finished_episodes import FinishedEpisodes
from ._protocols import VectorEnvironments
from ._spaces import ActionSpec

__all__ = ["Transitions", "VectorSteps"]


@final
class Transitions(NamedTuple):
    """One step of each environment. All arrays have the environments as their first axis.

    Attributes:
        reward: float.
        terminated: bool, whether the episode has come to its end.
        truncated: bool, whether it was cut.
        next_observation: after the step; where the episode has ended, its last observation.
        valid: bool; False where the step only reset the environment, as in autoreset mode "NextStep".
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
        action: their actions, as the graph has them.

    Attributes:
        envs: as given.
        observation: those that the agent acts for next.
        episodes: the returns of the finished episodes.

    Raises:
        ValueError: (when first stepped) they have an unknown autoreset mode.
    """

    def __init__(self, envs: VectorEnvironments, action: ActionSpec) -> None:
        self.envs, self._action = envs, action
        self._mode = _autoreset_mode(envs)
        self.episodes = FinishedEpisodes(envs.num_envs)
        self._resets_next = np.zeros(envs.num_envs, bool)
        self._shape = (envs.num_envs, *envs.single_observation_space.shape)
        self._steps = 0
        self._sent: np.ndarray | None = None
        self._all_valid = np.ones(envs.num_envs, bool)

    @property
    def resets_by_next_step(self) -> bool:
        """Whether the step after an episode's end resets its environment, and does nothing else."""
        return self._mode == "NEXT_STEP"

    def reset(self, seed: int) -> None:
        """Begins the first episodes.

        Args:
            seed: given to the environments' `reset`.
        """
        self.observation = self._checked(self.envs.reset(seed=seed)[0])
        self._resets_next = np.zeros(self.envs.num_envs, bool)
        self._sent = None
        self.episodes.begin_anew()

    def send(self, actions: np.ndarray) -> None:
        """Begins a step, if the environments can step by themselves; else it is made by `receive`.

        Args:
            actions: of the graph.
        """
        actions = self._action.for_environment(actions)
        if hasattr(self.envs, "send"):
            self.envs.send(actions)
        self._sent = actions

    def receive(self) -> Transitions:
        """Returns what the step did that was sent, and takes over the new observations.

        Raises:
            EnvironmentStepError: an observation or a reward cannot be.
        """
        assert self._sent is not None
        result = self.envs.recv() if hasattr(self.envs, "recv") else self.envs.step(self._sent)
        self._sent = None
        self._steps += 1
        observation, reward, terminated, truncated, infos = result
        observation = self._checked(observation)
        self._check_rewards(reward)
        valid = ~self._resets_next if self._resets_next.any() else self._all_valid
        ended = terminated | truncated
        self.episodes.count(reward, ended, valid)
        after = observation
        if self._mode == "NEXT_STEP":
            self._resets_next = ended
        elif ended.any():
            after = self._last_observations(observation, ended, infos)
            if self._mode == "DISABLED":
                observation = self._checked(self.envs.reset(options={"reset_mask": ended})[0])
        self.observation = observation
        return Transitions(reward, terminated, truncated, after, valid)

    def arrays(self) -> dict[str, np.ndarray]:
        """Returns what is not the environments' own state, as arrays."""
        return {"observation": self.observation, "resets_next": self._resets_next, **self.episodes.arrays()}

    def load_arrays(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Restores what `arrays` returned."""
        self.observation, self._resets_next = arrays["observation"], arrays["resets_next"]
        self.episodes.load_arrays(arrays)

    def _last_observations(self, observation: np.ndarray, ended: np.ndarray, infos: Any) -> np.ndarray:
        if self._mode == "DISABLED":
            return observation
        if "final_obs" not in infos:
            raise EnvironmentStepError(
                f"Environment {int(np.argmax(ended))}, step {self._steps}: its episode has ended, and the "
                f'infos of autoreset mode "SameStep" have no "final_obs", which the next value depends on; '
                f"they have {sorted(infos)}."
            )
        last = observation.copy()
        for number in np.flatnonzero(ended):
            last[number] = infos["final_obs"][number]
        return last

    def _checked(self, observation: Any) -> np.ndarray:
        array = np.asarray(observation)
        if array.shape != self._shape:
            raise EnvironmentStepError(
                f"Step {self._steps}: the environments returned observations of shape {array.shape}; their "
                f"spaces declare {self._shape}."
            )
        return array

    def _check_rewards(self, reward: np.ndarray) -> None:
        if not np.isfinite(reward).all():
            number = int(np.argmin(np.isfinite(reward)))
            raise EnvironmentStepError(
                f"Environment {number}, step {self._steps}: the reward is {reward[number]}; an agent learns "
                "from finite ones. Mend the environment, or wrap it by one that replaces such rewards."
            )


def _autoreset_mode(envs: VectorEnvironments) -> str:
    mode = envs.metadata.get("autoreset_mode", "NextStep")
    name = str(getattr(mode, "name", mode)).replace("_", "").lower()
    known = {"nextstep": "NEXT_STEP", "samestep": "SAME_STEP", "disabled": "DISABLED"}
    if name not in known:
        raise ValueError(
            f"The environments have the autoreset mode {mode!r}; expected one of gymnasium's: NextStep, "
            "SameStep, Disabled."
        )
    return known[name]
