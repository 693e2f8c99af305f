"""Returns and lengths of episodes, counted during the steps of their environments."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import NamedTuple, final

import numpy as np

__all__ = ["Episode", "FinishedEpisodes"]

_KEPT = 100


@final
class Episode(NamedTuple):
    """A finished episode.

    Attributes:
        total: the sum of its rewards, not discounted: its return.
        length: the number of its steps.
    """

    total: float
    length: int


@final
class FinishedEpisodes:
    """Sums up the rewards of each environment's episode, and keeps the latest finished episodes.

    Args:
        environments: the number of environments.

    Attributes:
        last: the last 100 episodes.
        new: the episodes since `take_new`.
    """

    def __init__(self, environments: int) -> None:
        self._totals = np.zeros(environments)
        self._lengths = np.zeros(environments, np.int64)
        self.last: deque[Episode] = deque(maxlen=_KEPT)
        self.new: list[Episode] = []

    def begin_anew(self, first: int, count: int) -> None:
        """Drops the sums of unfinished episodes.

        Args:
            first: the number of the first environment.
            count: the number of environments.
        """
        self._totals[first : first + count] = 0
        self._lengths[first : first + count] = 0

    def count(self, reward: np.ndarray, ended: np.ndarray, valid: np.ndarray, first: int = 0) -> None:
        """Counts one step of some environments.

        Args:
            reward: the reward of each environment.
            ended: bool, whether its episode has ended with the step.
            valid: bool; False if the step only reset the environment.
            first: the number of the first of these environments.
        """
        totals = self._totals[first : first + len(reward)]
        lengths = self._lengths[first : first + len(reward)]
        totals += reward * valid
        lengths += valid
        if ended.any():
            for number in np.flatnonzero(ended & valid):
                self.add(Episode(float(totals[number]), int(lengths[number])))
            totals[ended] = 0
            lengths[ended] = 0

    def add(self, episode: Episode) -> None:
        """Adds an episode that was counted elsewhere."""
        self.last.append(episode)
        self.new.append(episode)

    def take_new(self) -> list[Episode]:
        """Returns the episodes that have ended since the last call."""
        new, self.new = self.new, []
        return new

    def arrays(self) -> dict[str, np.ndarray]:
        """Returns the state, as arrays."""
        last = np.array([*self.last], np.float64).reshape(-1, 2)
        new = np.array(self.new, np.float64).reshape(-1, 2)
        return {"totals": self._totals, "lengths": self._lengths, "last_episodes": last, "new_episodes": new}

    def load_arrays(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Restores the return value of `arrays`."""
        self._totals, self._lengths = arrays["totals"].copy(), arrays["lengths"].copy()
        self.last.clear()
        self.last.extend(_episodes(arrays["last_episodes"]))
        self.new = _episodes(arrays["new_episodes"])


def _episodes(rows: np.ndarray) -> list[Episode]:
    return [Episode(float(total), int(length)) for total, length in rows]
