"""What trainers ask of environments, memories and rollouts, wherever these come from."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np

__all__ = ["EnvironmentState", "Environments", "Memory", "Rollout", "VectorEnvironments"]

_Directory = str | os.PathLike[str]


class VectorEnvironments(Protocol):
    """A `gymnasium.vector.VectorEnv`, as far as trainers know it."""

    num_envs: int
    metadata: dict[str, Any]
    single_observation_space: Any
    single_action_space: Any

    def reset(
        self, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begins an episode in each environment."""

    def step(
        self, actions: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Makes one step in each environment."""


Environments: TypeAlias = VectorEnvironments | Sequence[VectorEnvironments]
"""Vector environments, or a list of groups of them."""


class EnvironmentState(Protocol):
    """The state of environments, such as `towerpack_dataflow.envs.VectorEnvState(envs)`.

    Attributes:
        exact: whether a loaded state continues the very same episodes.
    """

    exact: bool

    def state_dict(self) -> dict[str, Any]:
        """Returns the state, as JSON values."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores a state."""


class _Kept(Protocol):
    """Something with a small state and large arrays."""

    def __len__(self) -> int:
        """Returns how much it holds."""

    def state_dict(self) -> dict[str, Any]:
        """Returns all but the arrays, as JSON values."""

    def load_state_dict(self, state: Mapping[str, Any], directory: _Directory | None = None) -> None:
        """Restores a state, with the arrays of the directory that `link_into` filled at the same moment."""

    def link_into(self, directory: _Directory) -> None:
        """Puts the arrays into a directory, as files."""


class Rollout(_Kept, Protocol):
    """Steps of environments, such as `towerpack_dataflow.replay.RolloutBuffer`, which describes them."""

    @property
    def full(self) -> bool:
        """Whether all steps were added."""

    @property
    def steps(self) -> int:
        """How many steps of each environment there is room for."""

    @property
    def environments(self) -> int:
        """How many environments there are."""

    def add(
        self, observation: Any, action: Any, reward: Any, terminated: Any, truncated: Any, **more: Any
    ) -> None:
        """Adds one step of all environments."""

    def finish(self, next_value: Any) -> None:
        """Computes the advantages."""

    def minibatches(self, size: int, epochs: int = 1) -> Iterator[Any]:
        """Yields batches of the steps in random order."""

    def clear(self) -> None:
        """Forgets the steps."""


class Memory(_Kept, Protocol):
    """Transitions to sample, such as `towerpack_dataflow.replay.ReplayBuffer`, which describes them."""

    @property
    def capacity(self) -> int:
        """The most transitions that are kept."""

    @property
    def n_step(self) -> int:
        """How many steps are joined into one."""

    @property
    def gamma(self) -> float:
        """The discount of rewards."""

    @property
    def frame_stack(self) -> int:
        """How many frames an observation of a batch is made of."""

    @property
    def prioritized(self) -> bool:
        """Whether what is sampled depends on errors."""

    def add(
        self,
        observation: Any,
        action: Any,
        reward: Any,
        terminated: Any,
        truncated: Any,
        next_observation: Any,
        environments: Any = None,
    ) -> None:
        """Adds one transition of each of several environments."""

    def sample(self, batch_size: int) -> Any:
        """Returns a batch of transitions."""

    def update_priorities(self, indices: Any, priorities: Any) -> None:
        """Takes the errors of transitions that were sampled."""

    def break_episodes(self) -> None:
        """Lets the next transition of each environment begin an episode."""
