"""Finds the periods that are due at a step, for one period or for many items at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar, final

from ._every import EVERY_STEP, Every

__all__ = ["DueSchedule", "Ticker"]

T = TypeVar("T")


@final
class Ticker:
    """Tracks whether one period is due. A repeated call at the same step returns the same result.

    Args:
        every: the period.
        clock: returns the time in seconds.
    """

    def __init__(self, every: Every, clock: Callable[[], float] = time.monotonic) -> None:
        self.every = every
        self._clock = clock
        self._step: int | None = None
        self._due_step: int | None = None
        self.deadline = float("inf") if every.seconds is None else clock() + every.seconds

    def due(
        self,
        step: int,
        epoch: int,
        last_step: bool,
        before: int | None = None,
        env_steps: tuple[int, int] = (0, 0),
    ) -> bool:
        """Returns whether the period is due now; see `Every.due`."""
        if self.every.seconds is None:
            return self.every.due(step, epoch, last_step, before, env_steps)
        if step != self._step:
            now = self._clock()
            self._step = step
            if now >= self.deadline:
                self._due_step, self.deadline = step, now + self.every.seconds
        return step == self._due_step

    def restart(self) -> None:
        """Restarts the count of seconds now."""
        if self.every.seconds is not None:
            self.deadline = self._clock() + self.every.seconds


@final
class DueSchedule(Generic[T]):
    """Finds the due items among many with periods, by one comparison at most steps.

    The same set of due items always gives the same tuple object, so it can serve as a cache key.

    Args:
        items: pairs of an item and its period. `due` keeps their order.
        clock: returns the time in seconds.
        env_steps: returns `LoopState.env_steps_passed`.
    """

    def __init__(
        self,
        items: Sequence[tuple[T, Every]],
        clock: Callable[[], float] = time.monotonic,
        env_steps: Callable[[], tuple[int, int]] = lambda: (0, 0),
    ) -> None:
        self._items = tuple((item, Ticker(every, clock)) for item, every in items)
        self.always: tuple[T, ...] = tuple(item for item, every in items if every == EVERY_STEP)
        self._step_periods = [
            every.steps for _, every in items if every.steps is not None and every.steps > 1
        ]
        self._env_periods = [every.env_steps for _, every in items if every.env_steps is not None]
        self._env_steps = env_steps
        self._has_epoch_periods = any(every.epochs is not None for _, every in items)
        self._timed = [ticker for _, ticker in self._items if ticker.every.seconds is not None]
        self._clock = clock
        self._sets: dict[tuple[bool, ...], tuple[T, ...]] = {}
        # 0: the first call checks all items, since a resumed run may start at any step.
        self._next_step: float = 0
        self._next_env_step: int | None = None
        self._looked_at: int | None = None
        self._next_time = min((ticker.deadline for ticker in self._timed), default=None)

    def start(self, step: int) -> None:
        """Starts counting steps at `step` and seconds now; time before the training does not count.

        Args:
            step: the number of finished steps.
        """
        self._looked_at = step
        for ticker in self._timed:
            ticker.restart()
        self._next_time = min((ticker.deadline for ticker in self._timed), default=None)

    def unobserved_steps(self, step: int) -> float:
        """Returns the number of steps after `step` at which only `always` items are due, ignoring epochs.

        The number follows from the last call of `due`. It is 0 before the first call, and 0 when a period in
        seconds or `env_steps` has been reached. The latter do not change during unobserved steps.
        """
        if self._next_time is not None and self._clock() >= self._next_time:
            return 0
        if self._next_env_step is not None and self._env_steps()[1] >= self._next_env_step:
            return 0
        return max(self._next_step - step - 1, 0)

    def due(self, step: int, epoch: int, last_step: bool) -> tuple[T, ...]:
        """Returns the items due at this step, in their order. See `Every.due` for the arguments.

        A period in steps is due at the first queried step that reaches or passes a multiple of it.
        """
        if (
            step < self._next_step
            and not (last_step and self._has_epoch_periods)
            and (self._next_time is None or self._clock() < self._next_time)
            and (self._next_env_step is None or self._env_steps()[1] < self._next_env_step)
        ):
            return self.always
        self._next_step = min(((step // k + 1) * k for k in self._step_periods), default=float("inf"))
        before, self._looked_at = self._looked_at, step
        acted = self._env_steps()
        self._next_env_step = min(((acted[1] // k + 1) * k for k in self._env_periods), default=None)
        flags = tuple(ticker.due(step, epoch, last_step, before, acted) for _, ticker in self._items)
        self._next_time = min((ticker.deadline for ticker in self._timed), default=None)
        if flags not in self._sets:
            chosen = tuple(item for (item, _), flag in zip(self._items, flags) if flag)
            self._sets[flags] = self.always if chosen == self.always else chosen
        return self._sets[flags]
