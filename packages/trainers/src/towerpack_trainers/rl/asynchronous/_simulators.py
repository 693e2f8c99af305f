"""The interface of simulators for trainers, independent of their implementation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

__all__ = ["SimulatorHooks", "Simulators"]


class SimulatorHooks(Protocol):
    """The hooks that simulators call, always from the same thread.

    States have `simulator`, `environments`, `observation`, `reward`, `terminated`, `truncated` and `valid`;
    episodes have `total` and `length`; see `towerpack_dataflow.envs.simulators`.
    """

    def on_states(self, states: Any) -> None:
        """Receives the states of all environments of a simulator, which then waits for actions."""

    def on_episode_over(self, episode: Any) -> None:
        """Receives the statistics of an episode."""

    def on_error(self, error: BaseException) -> None:
        """Receives the error that has ended the simulators."""


class Simulators(Protocol):
    """The methods of a `towerpack_dataflow.envs.simulators.SimulatorMaster` that trainers use.

    After the end of an episode, the next step of the environment only resets it.
    """

    @property
    def running(self) -> bool:
        """Whether the simulators are running; `on_error` receives the error that ended them."""

    @property
    def simulators(self) -> Sequence[range]:
        """The numbers of the environments of each simulator."""

    @property
    def num_envs(self) -> int:
        """The total number of environments."""

    @property
    def single_observation_space(self) -> Any:
        """The space of one observation."""

    @property
    def single_action_space(self) -> Any:
        """The space of one action."""

    def start(self, hooks: SimulatorHooks) -> None:
        """Enables the hooks."""

    def send(self, simulator: int, actions: np.ndarray) -> None:
        """Sends actions to a waiting simulator, from any thread."""

    def close(self) -> None:
        """Ends the simulators."""
