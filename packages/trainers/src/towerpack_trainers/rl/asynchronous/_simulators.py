"""What a trainer asks of simulators, wherever these come from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

__all__ = ["SimulatorHooks", "Simulators"]


class SimulatorHooks(Protocol):
    """What simulators call, always from one thread of theirs.

    States have `simulator`, `environments`, `observation`, `reward`, `terminated`, `truncated` and `valid`,
    episodes `total` and `length`: see `towerpack_dataflow.envs.simulators`.
    """

    def on_states(self, states: Any) -> None:
        """Takes the states of all environments of a simulator, which waits for actions then."""

    def on_episode_over(self, episode: Any) -> None:
        """Takes the facts of an episode."""

    def on_error(self, error: BaseException) -> None:
        """Takes the error that has ended the simulators."""


class Simulators(Protocol):
    """A `towerpack_dataflow.envs.simulators.SimulatorMaster`, as far as trainers know it.

    An environment whose episode has ended is reset by its next step, which has no other effect.
    """

    @property
    def running(self) -> bool:
        """Whether there are simulators; if they were ended by an error, `on_error` is told of it."""

    @property
    def simulators(self) -> Sequence[range]:
        """The numbers of the environments of each simulator."""

    @property
    def num_envs(self) -> int:
        """How many environments all of them have."""

    @property
    def single_observation_space(self) -> Any:
        """The space of one observation."""

    @property
    def single_action_space(self) -> Any:
        """The space of one action."""

    def start(self, hooks: SimulatorHooks) -> None:
        """Lets the hooks be called from now on."""

    def send(self, simulator: int, actions: np.ndarray) -> None:
        """Sends actions to a simulator that waits for them; from any thread."""

    def close(self) -> None:
        """Ends the simulators."""
