"""Trajectories between simulators and the learner: collected step by step, then batched by a flow."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, final

import numpy as np

__all__ = ["TrajectoryFlow", "Unroll"]


@final
class Unroll:
    """Collects the steps of the environments of one simulator, until each has made a trajectory.

    Args:
        environments: the number of environments.
        steps: the number of steps in a trajectory.
        observation: dtype and shape of one observation.
        action: dtype and shape of one action.
    """

    def __init__(
        self,
        environments: int,
        steps: int,
        observation: tuple[Any, Sequence[int]],
        action: tuple[Any, Sequence[int]],
    ) -> None:
        self._rows, self._steps = (environments, steps), steps
        self._observation, self._action = observation, action
        self._at = -1  # the latest step that was begun
        self._begin()

    def end_step(self, reward: np.ndarray, terminated: np.ndarray, valid: np.ndarray) -> None:
        """Adds the results of the last step; does nothing at the beginning."""
        if self._at >= 0:
            self._reward[:, self._at] = reward
            self._terminated[:, self._at] = terminated
            self._valid[:, self._at] = valid

    def observe(self, observation: np.ndarray) -> list[tuple[np.ndarray, ...]]:
        """Adds the observations at the beginning of the next step.

        Returns:
            The trajectories, if they are complete now, as arrays in the order of `TrajectoryTensors`.
        """
        self._observations[:, self._at + 1] = observation
        self._at += 1
        if self._at < self._steps:
            return []
        parts = (self._actions, self._log_probability, self._reward, self._terminated, self._valid)
        complete = list(zip(self._observations, *parts))
        self._begin()
        self._observations[:, 0] = observation
        self._at = 0
        return complete

    def act(self, action: np.ndarray, log_probability: np.ndarray) -> None:
        """Adds the actions of the step."""
        self._actions[:, self._at] = action
        self._log_probability[:, self._at] = log_probability

    def _begin(self) -> None:
        count, steps = self._rows
        (observed, shape), (acted, action_shape) = self._observation, self._action
        self._observations = np.empty((count, steps + 1, *shape), observed)
        self._actions = np.empty((*self._rows, *action_shape), acted)
        self._log_probability = np.empty(self._rows, np.float32)
        self._reward = np.empty(self._rows, np.float32)
        self._terminated = np.empty(self._rows, np.bool_)
        self._valid = np.empty(self._rows, np.bool_)


@final
class TrajectoryFlow:
    """Yields batches of trajectories in the order of arrival: a live flow, which has no position.

    Args:
        batch_size: the number of trajectories in a batch.
        capacity: the number of waiting trajectories up to which `put` does not wait.
    """

    live = True

    def __init__(self, batch_size: int, capacity: int) -> None:
        self._batch_size, self._capacity = batch_size, capacity
        self._waiting: deque[tuple[np.ndarray, ...]] = deque()
        self._changed = threading.Condition()
        self._error: BaseException | None = None
        self._closed = False

    def put(self, trajectories: Sequence[tuple[np.ndarray, ...]]) -> None:
        """Adds trajectories; waits until there is room, or the flow has ended."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._waiting) <= self._capacity or self._over)
            self._waiting.extend(trajectories)
            self._changed.notify_all()

    def fail(self, error: BaseException) -> None:
        """Makes the reader raise an error; only the first error counts."""
        with self._changed:
            self._error = self._error or error
            self._changed.notify_all()

    def close(self) -> None:
        """Ends the flow for the reader and for waiting writers."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def __iter__(self) -> Iterator[list[np.ndarray]]:
        """Yields lists of arrays in the order of `TrajectoryTensors`, until the flow is closed."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: len(self._waiting) >= self._batch_size or self._over)
                if self._error is not None and not self._closed:
                    raise self._error
                if self._closed:
                    return
                taken = [self._waiting.popleft() for _ in range(self._batch_size)]
                self._changed.notify_all()
            observations, *rest = zip(*taken)
            yield [np.concatenate(observations), *map(np.stack, rest)]

    @property
    def _over(self) -> bool:
        return self._closed or self._error is not None
