"""Steps in several groups of vector environments; some step while the policy acts for others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np

from ..._errors import ConfigError
from .._protocols import Environments
from .._spaces import action_spec
from ._finished_episodes import FinishedEpisodes
from ._vector_steps import Transitions, VectorSteps

__all__ = ["GroupedSteps"]


@final
class GroupedSteps:
    """Steps one group of environments or several, as if they were one.

    Args:
        envs: vector environments, or a list of them, with the same spaces.

    Attributes:
        parts: the groups.
        num_envs: the total number of environments.
        episodes: the returns of the finished episodes of all groups.

    Raises:
        ConfigError: the groups differ in more than their number of environments, or agents do not support
            such actions.
    """

    def __init__(self, envs: Environments) -> None:
        groups: list[Any] = list(envs) if isinstance(envs, (list, tuple)) else [envs]
        if not groups:
            raise ConfigError("envs=[]: expected vector environments, or a list of two.")
        firsts = np.cumsum([0, *(group.num_envs for group in groups)])
        self.num_envs = int(firsts[-1])
        self.episodes = FinishedEpisodes(self.num_envs)
        self.parts = tuple(
            VectorSteps(group, action_spec(group.single_action_space), self.episodes, int(first))
            for group, first in zip(groups, firsts)
        )
        self._ends = firsts[1:-1]
        kinds = {str(_kind(part)) for part in self.parts}
        if len(kinds) > 1:
            raise ConfigError(
                f"envs=[...]: the groups must have the same spaces and autoreset mode; received "
                f"{' and '.join(sorted(kinds))}."
            )

    @property
    def resets_by_next_step(self) -> bool:
        """Whether autoreset mode is NEXT_STEP."""
        return self.parts[0].resets_by_next_step

    @property
    def overlaps(self) -> bool:
        """Whether a group can step while the policy acts for another one."""
        return len(self.parts) > 1 and all(hasattr(part.envs, "send") for part in self.parts)

    @property
    def started(self) -> bool:
        """Whether there are observations to act for."""
        return hasattr(self.parts[-1], "observation")

    @property
    def observation(self) -> np.ndarray:
        """The next observations for the agent."""
        observations: np.ndarray = _joined([part.observation for part in self.parts])
        return observations

    def reset(self, seed: int) -> None:
        """Begins new episodes in all environments.

        Args:
            seed: the seed of the first environment; each further environment adds 1.
        """
        for part, first in zip(self.parts, [0, *self._ends]):
            part.reset(seed + int(first))

    def send(self, actions: np.ndarray) -> None:
        """Begins a step of all environments; see `VectorSteps`."""
        for part, own in zip(self.parts, np.split(actions, self._ends) if len(self._ends) else [actions]):
            part.send(own)

    def receive(self) -> Transitions:
        """Returns the result of the step that was sent."""
        return self.joined([part.receive() for part in self.parts])

    def joined(self, happened: Sequence[Transitions]) -> Transitions:
        """Joins the steps of all groups into one."""
        return happened[0] if len(happened) == 1 else Transitions(*map(_joined, zip(*happened)))

    def arrays(self) -> dict[str, np.ndarray]:
        """Returns the state apart from the environments' own, as arrays."""
        kept = [part.arrays() for part in self.parts]
        return {
            **{name: _joined([each[name] for each in kept]) for name in kept[0]},
            **self.episodes.arrays(),
        }

    def load_arrays(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Restores the return value of `arrays`."""
        names = ("observation", "resets_next")
        for number, part in enumerate(self.parts):
            part.load_arrays({name: np.split(arrays[name], self._ends)[number] for name in names})
        self.episodes.load_arrays(arrays)


def _joined(arrays: Sequence[Any]) -> Any:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _kind(part: VectorSteps) -> tuple[Any, ...]:
    """Returns the properties that must be equal in all groups."""
    observation, action = part.envs.single_observation_space, part.envs.single_action_space
    spaces = tuple((tuple(space.shape), np.dtype(space.dtype).name) for space in (observation, action))
    return (*spaces, getattr(action, "n", None), part.mode)
