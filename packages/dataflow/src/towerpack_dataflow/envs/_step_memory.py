"""The memory shared by a worker and its parent: actions for its environments, and their results."""

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

    The parent writes `actions` and `wanted`, the worker the rest; only the receiver of the last message
    writes, so no lock is needed.

    Args:
        memory: a flat array of bytes; `None` to compute only the size.
        count: number of environments of the worker.
        observation, action: the spaces of one environment.

    Attributes:
        size: bytes.
        observations, actions: an array for each part of the space.
        rewards, terminated, truncated: results of the last step.
        wanted, ready: whether a step was requested, and whether it is done.
        episode, step: numbers of the current ones; -1 while an environment is reset.
        digest: CRC-32 of all observations, rewards and ends of the current episode so far.
        current: the environment being called, or `IDLE`.
        since: start of that call on the monotonic clock.
    """

    def __init__(
        self, memory: np.ndarray | None, count: int, observation: SpaceArrays, action: SpaceArrays
    ) -> None:
        """Lays out the arrays, each on a separate cache line."""
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
        """Marks all environments as idle and not reset."""
        self.current[0] = IDLE
        self.episode[:] = -1

    def doing(self, first: int) -> str:
        """Describes the current call of an environment, for messages.

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
    """Describes a call of an environment; a `step` of -1 is the reset."""
    return f"in step {step} of episode {episode}" if step >= 0 else f"in the reset for episode {episode}"
