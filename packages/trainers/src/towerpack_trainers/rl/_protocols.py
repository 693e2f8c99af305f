"""The interfaces of environments, memories and rollouts for trainers, independent of their implementation."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np

__all__ = ["EnvironmentState", "Environments", "Memory", "Rollout", "VectorEnvironments"]

_Directory = str | os.PathLike[str]


class VectorEnvironments(Protocol):
    """The methods of a `gymnasium.vector.VectorEnv` that trainers use.

    Example:
        >>> import gymnasium
        >>> envs: VectorEnvironments = gymnasium.make_vec("CartPole-v1", num_envs=2)
        >>> envs.num_envs
        2
    """

    num_envs: int
    metadata: dict[str, Any]
    single_observation_space: Any
    single_action_space: Any

    def reset(
        self, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Starts a new episode in each environment."""

    def step(
        self, actions: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Makes one step in each environment."""


Environments: TypeAlias = VectorEnvironments | Sequence[VectorEnvironments]
"""Vector environments, or a list of groups of them."""


class EnvironmentState(Protocol):
    """The state of environments, such as `towerpack_dataflow.envs.VectorEnvState(envs)`.

    Attributes:
        exact: whether a loaded state continues exactly the same episodes.

    Example:
        >>> import gymnasium
        >>> from towerpack_dataflow.envs import VectorEnvState
        >>> state: EnvironmentState = VectorEnvState(gymnasium.make_vec("CartPole-v1", num_envs=2))
        >>> state.exact
        True
    """

    exact: bool

    def state_dict(self) -> dict[str, Any]:
        """Returns the state, as JSON values."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores a state."""


class _Kept(Protocol):
    """An object with a small state and large arrays."""

    def __len__(self) -> int:
        """Returns the number of its elements."""

    def state_dict(self) -> dict[str, Any]:
        """Returns everything except the arrays, as JSON values."""

    def load_state_dict(self, state: Mapping[str, Any], directory: _Directory | None = None) -> None:
        """Restores a state, with the arrays that `link_into` wrote to the directory at the same time."""

    def link_into(self, directory: _Directory) -> None:
        """Writes the arrays into a directory, as files."""


class Rollout(_Kept, Protocol):
    """Steps of environments; see `towerpack_dataflow.replay.RolloutBuffer` for the details.

    Example:
        >>> import gymnasium
        >>> from towerpack_dataflow.replay import RolloutBuffer
        >>> env = gymnasium.make("CartPole-v1")
        >>> rollout: Rollout = RolloutBuffer(env.observation_space, env.action_space, steps=5, environments=2)
        >>> rollout.steps, rollout.full
        (5, False)
    """

    @property
    def full(self) -> bool:
        """Whether it contains all steps."""

    @property
    def steps(self) -> int:
        """The capacity, in steps of each environment."""

    @property
    def environments(self) -> int:
        """The number of environments."""

    def add(
        self,
        observation: Any,
        action: Any,
        reward: Any,
        terminated: Any,
        truncated: Any,
        *,
        value: Any,
        log_probability: Any,
        truncation_value: Any = None,
        valid: Any = True,
    ) -> None:
        """Adds one step of all environments."""

    def finish(self, next_value: Any) -> None:
        """Computes the advantages."""

    def minibatches(self, size: int, epochs: int = 1) -> Iterator[Any]:
        """Yields batches of the steps in random order."""

    def clear(self) -> None:
        """Removes all steps."""


class Memory(_Kept, Protocol):
    """Transitions to sample; see `towerpack_dataflow.replay.ReplayBuffer` for the details.

    Example:
        >>> import gymnasium
        >>> from towerpack_dataflow.replay import ReplayBuffer
        >>> env = gymnasium.make("CartPole-v1")
        >>> memory: Memory = ReplayBuffer(env.observation_space, env.action_space, capacity=1000)
        >>> memory.capacity, memory.prioritized
        (1000, False)
    """

    @property
    def capacity(self) -> int:
        """The maximum number of stored transitions."""

    @property
    def n_step(self) -> int:
        """The number of steps that are joined into one transition."""

    @property
    def gamma(self) -> float:
        """The discount of rewards."""

    @property
    def frame_stack(self) -> int:
        """The number of frames in an observation of a batch."""

    @property
    def prioritized(self) -> bool:
        """Whether sampling depends on priorities."""

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
        """Sets the priorities of sampled transitions."""

    def break_episodes(self) -> None:
        """Makes the next transition of each environment begin an episode."""
