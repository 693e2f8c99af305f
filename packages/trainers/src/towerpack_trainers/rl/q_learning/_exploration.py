"""The probability of random actions, for exploration."""

from __future__ import annotations

from typing import final

import attrs
import numpy as np

from ..._errors import ConfigError

__all__ = ["LinearEpsilon", "explored"]


@final
@attrs.frozen
class LinearEpsilon:
    """The probability of a random action: decreases linearly from `start` to `end`.

    Args:
        start: the probability at the beginning.
        end: the probability after `env_steps` and from then on.
        env_steps: the length of the decrease, in steps of all environments.

    Raises:
        ConfigError: a value is not a probability, or `env_steps` is below 1.

    Example:
        >>> exploration = LinearEpsilon(1.0, 0.1, env_steps=100)
        >>> [round(exploration.at(steps), 2) for steps in (0, 50, 100, 1000)]
        [1.0, 0.55, 0.1, 0.1]
    """

    start: float = 1.0
    end: float = 0.05
    env_steps: int = 10_000

    def __attrs_post_init__(self) -> None:
        for name in ("start", "end"):
            value = getattr(self, name)
            if not 0 <= value <= 1:
                raise ConfigError(f"LinearEpsilon({name}={value!r}): expected a probability, from 0 to 1.")
        if not self.env_steps >= 1:
            raise ConfigError(f"LinearEpsilon(env_steps={self.env_steps!r}): expected at least 1.")

    def at(self, env_steps: int) -> float:
        """Returns the probability after the given number of environment steps."""
        done = min(env_steps / self.env_steps, 1.0)
        return self.start + done * (self.end - self.start)


def explored(greedy: np.ndarray, choices: int, epsilon: float, rng_key: tuple[int, int]) -> np.ndarray:
    """Replaces each action by a random one with the given probability.

    Args:
        greedy: the actions.
        choices: the number of possible actions.
        epsilon: the probability.
        rng_key: seed and number of the call; the random numbers depend on nothing else.
    """
    generator = np.random.Generator(np.random.Philox(key=np.array(rng_key, np.uint64)))
    at_random = generator.random(len(greedy)) < epsilon
    return np.where(at_random, generator.integers(choices, size=len(greedy)), greedy)
