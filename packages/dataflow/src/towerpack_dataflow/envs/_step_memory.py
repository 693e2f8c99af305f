"""The memory that a worker shares with its parent: what goes to its environments, and what comes back."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from ..storage import aligned_size
from ._space_arrays import Part, SpaceArrays

__all__ = ["IDLE", "StepMemory", "call_text"]

IDLE = -1  # in `current`, while no environment is called


@final
class StepMemory:
    """Arrays in one piece of shared memory, with a row for each environment of a worker.

    The parent writes `actions` and `wanted`, the worker the rest; who has been sent a message writes, so that
    no lock is needed.

    Args:
        memory: a flat array of bytes; `None` to learn the size alone.
        count: environments of the worker.
        observation, action: the spaces of one environment.

    Attributes:
        size: bytes.
        observations, actions: an array for each part of the space.
        rewards, terminated, truncated: of the last step.
        wanted, ready: whether a step was requested, and whether it is done.
        episode, step: numbers of the present ones; -1 while an environment is reset.
        digest: CRC-32 of all observations, rewards and ends of the present episode so far.
        current: the environment that is being called, or `IDLE`.
        since: when that call began, on the monotonic clock.
    """

    def __init__(
        self, memory: np.ndarray | None, count: int, observation: SpaceArrays, action: SpaceArrays
    ) -> None:
        """Lays the arrays out, each on a cache line of its own."""
        self._memory = memory
        self.size = 0
        self.observations = [self._rows(count, part) for part in observation.parts]
        self.actions = [self._rows(count, part) for part in action.parts]
        self.rewards = self._array((count,), np.float64)
        self.terminated = self._array((count,), np.bool_)
        self.truncated = self._array((count,), np.bool_)
        self.wanted = self._array((count,), np.bool_)
        self.ready = self._array((count,), np.bool_)
        self.episode = self._array((count,), np.int64)
        self.step = self._array((count,), np.int64)
        self.digest = self._array((count,), np.uint32)
        self.current = self._array((1,), np.int64)
        self.since = self._array((1,), np.float64)

    def clear(self) -> None:
        """Says that no environment is called, and none was reset."""
        self.current[0] = IDLE
        self.episode[:] = -1

    def doing(self, first: int) -> str:
        """Says which call of which environment is under way, for messages.

        Args:
            first: the number of the first environment of the worker.
        """
        row = int(self.current[0])
        if row == IDLE:
            return "while it called no environment"
        return f"in environment {first + row}, {call_text(int(self.episode[row]), int(self.step[row]))}"

    def _rows(self, count: int, part: Part) -> np.ndarray:
        return self._array((count, *part.shape), part.dtype)

    def _array(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        begin, dtype = self.size, np.dtype(dtype)
        length = dtype.itemsize * int(np.prod(shape))
        self.size += aligned_size(length)
        if self._memory is None:
            return np.empty(0, dtype)
        array: np.ndarray = self._memory[begin : begin + length].view(dtype).reshape(shape)
        return array


def call_text(episode: int, step: int) -> str:
    """Says which call of an environment is meant; a `step` of -1 is the reset."""
    return f"in step {step} of episode {episode}" if step >= 0 else f"in the reset for episode {episode}"
