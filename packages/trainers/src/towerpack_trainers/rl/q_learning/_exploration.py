"""How often an agent tries an action at random, to learn what it would not have done."""

from __future__ import annotations

from typing import final

import attrs
import numpy as np

from ..._errors import ConfigError

__all__ = ["LinearEpsilon", "explored"]


@final
@attrs.frozen
class LinearEpsilon:
    """The probability of a random action: from `start` down to `end`, in a straight line.

    Args:
        start: at the beginning.
        end: behind `env_steps`, and from there on.
        env_steps: steps of all environments that the line takes.

    Raises:
        ConfigError: a probability is none, or the line has no length.

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
            raise ConfigError(f"LinearEpsilon(env_steps={self.env_steps!r}): expected a number from 1 up.")

    def at(self, env_steps: int) -> float:
        """Returns the probability after so many steps of the environments."""
        done = min(env_steps / self.env_steps, 1.0)
        return self.start + done * (self.end - self.start)


def explored(greedy: np.ndarray, choices: int, epsilon: float, draw: tuple[int, int]) -> np.ndarray:
    """Returns actions, each of which is replaced by a random one with a probability.

    Args:
        greedy: the actions.
        choices: how many there are.
        epsilon: the probability.
        draw: seed and number of the act; the random numbers depend on nothing else.
    """
    generator = np.random.Generator(np.random.Philox(key=np.array(draw, np.uint64)))
    at_random = generator.random(len(greedy)) < epsilon
    return np.where(at_random, generator.integers(choices, size=len(greedy)), greedy)
