"""`KeySequence`: the seed of a generator with a given key."""

from __future__ import annotations

from typing import Any, final

import numpy as np
from numpy.random.bit_generator import ISpawnableSeedSequence

__all__ = ["KeySequence"]


@final
class KeySequence(ISpawnableSeedSequence):
    """Gives `Philox` its key.

    `Philox(key=...)` reads random numbers of the operating system first, for `spawn`, which takes three times
    as long as the rest and spawns generators that differ in each run.

    Args:
        key: two words of 64 bits.
        index: the index of a datapoint, for `spawn`.
    """

    def __init__(self, key: np.ndarray, index: int | None = None) -> None:
        """Stores the key."""
        self._key = key
        self._index = index
        self._spawning: np.random.SeedSequence | None = None

    def at(self, index: int | None) -> Any:
        """Returns the same key for the generator of datapoint `index`."""
        return KeySequence(self._key, index)

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> np.ndarray:
        """Returns the key, whose words are those that `Philox` requests."""
        return self._key

    def spawn(self, n_children: int) -> list[Any]:
        """Returns seeds of other generators, the same ones in each run."""
        if self._spawning is None:
            place = 0 if self._index is None else self._index + 1
            self._spawning = np.random.SeedSequence([*self._key.tolist(), place])
        return list(self._spawning.spawn(n_children))
