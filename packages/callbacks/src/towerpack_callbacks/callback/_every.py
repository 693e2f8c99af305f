"""Periods of callbacks in steps, epochs, seconds or environment steps, and the items due at a step."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar, final

import attrs

from .._errors import PeriodError
from ._argument_checks import check_count, check_number_above_zero

__all__ = ["EVERY_EPOCH", "EVERY_STEP", "DueSchedule", "Every", "Ticker", "as_every"]


_UNITS = {
    "step": ("steps", 1),
    "steps": ("steps", 1),
    "ep": ("epochs", 1),
    "epoch": ("epochs", 1),
    "epochs": ("epochs", 1),
    "sec": ("seconds", 1),
    "second": ("seconds", 1),
    "seconds": ("seconds", 1),
    "env_step": ("env_steps", 1),
    "env_steps": ("env_steps", 1),
    "min": ("seconds", 60),
    "minute": ("seconds", 60),
    "minutes": ("seconds", 60),
    "h": ("seconds", 3600),
    "hour": ("seconds", 3600),
    "hours": ("seconds", 3600),
}


@final
@attrs.frozen
class Every:
    """A period in steps, epochs, seconds or environment steps. Give exactly one of them.

    | period | as a string | due |
    | --- | --- | --- |
    | `Every(steps=100)` | `"100 steps"`, `"100step"` | when steps 100, 200, … have finished |
    | `Every(epochs=2)` | `"2 epochs"`, `"2ep"` | at the last step of epochs 2, 4, … |
    | `Every(seconds=600)` | `"10 min"`, `"600 sec"`, `"2h"` | at the first step to end that much later |
    | `Every(env_steps=500)` | `"500 env_steps"` | at the first step with 500, 1000, … `env_steps` behind it |

    Callbacks accept periods in both forms. There is no unit "s", which could mean steps or seconds. Steps are
    counted by `global_step` *after* the step, independent of epochs. Seconds count from the last time the
    period was due, initially from the beginning of the training (or of the resumed run). They depend on the
    machine's speed: use another unit for a run that must be reproducible. The trainer of an agent adds many
    `env_steps` at once, between two steps of the loop: several multiples passed together count as one.

    Args:
        steps: a positive whole number of steps, or None.
        epochs: a positive whole number of epochs, or None.
        seconds: a positive number of seconds, or None.
        env_steps: a positive whole number of steps in an agent's environments, or None.

    Raises:
        PeriodError: not exactly one argument is given, or the number is invalid.

    Example:
        >>> Every(steps=100).due(step=200, epoch=1, last_step=False)
        True
        >>> Every(epochs=2).due(step=7, epoch=2, last_step=False)
        False
        >>> Every.parse("10 min")
        Every(steps=None, epochs=None, seconds=600, env_steps=None)
    """

    steps: int | None = attrs.field(default=None, kw_only=True)
    epochs: int | None = attrs.field(default=None, kw_only=True)
    seconds: float | None = attrs.field(default=None, kw_only=True)
    env_steps: int | None = attrs.field(default=None, kw_only=True)

    def __attrs_post_init__(self) -> None:
        numbers = attrs.asdict(self)
        given = [(name, number) for name, number in numbers.items() if number is not None]
        if len(given) != 1:
            received = ", ".join(f"{name}={number!r}" for name, number in numbers.items())
            raise PeriodError(
                f"Every() takes exactly one of {' and '.join(numbers)}, received {received}. "
                "Write Every(steps=100), Every(epochs=2), Every(seconds=600) or Every(env_steps=500)."
            )
        name, number = given[0]
        if name == "seconds":
            check_number_above_zero(f"Every(seconds={number!r})", number, error=PeriodError)
        else:
            check_count(f"Every({name}={number!r})", number, error=PeriodError)

    @classmethod
    def parse(cls, text: str) -> Every:
        """Reads a period such as "100 steps", "2 epochs", "10 min"; the class's table shows all units.

        Raises:
            PeriodError: the text is not a number with a unit.
        """
        match = re.fullmatch(r"\s*(\d+)\s*([a-z_]+)\s*", text) if isinstance(text, str) else None
        if match is None or match[2] not in _UNITS:
            why = ' ("s" might be steps or seconds)' if match and match[2] == "s" else ""
            raise PeriodError(
                f"The period {text!r} is not understood{why}. "
                'Write "100 steps", "2 epochs", "30 sec", "10 min", "2 h" or "500 env_steps".'
            )
        name, factor = _UNITS[match[2]]
        return cls(**{name: int(match[1]) * factor})

    def due(
        self,
        step: int,
        epoch: int,
        last_step: bool,
        before: int | None = None,
        env_steps: tuple[int, int] = (0, 0),
    ) -> bool:
        """Returns whether the period is due now. Periods in seconds need a `Ticker`, which keeps the time.

        Args:
            step: `global_step` after the step, 1 for the first.
            epoch: the running epoch, 1 for the first.
            last_step: whether this step is the last of its epoch.
            before: the step of the previous query; a multiple between the two is due. None: the step before
                `step`.
            env_steps: `LoopState.env_steps_passed`.

        Raises:
            PeriodError: the period is in seconds.
        """
        if self.steps is not None:
            return step // self.steps > (step - 1 if before is None else before) // self.steps
        if self.epochs is not None:
            return last_step and epoch % self.epochs == 0
        if self.env_steps is not None:
            return env_steps[1] // self.env_steps > env_steps[0] // self.env_steps
        raise PeriodError(
            f"Whether {self} is due depends on the time at which it was last due. Use Ticker(every).due()."
        )

    def __str__(self) -> str:
        numbers = attrs.asdict(self).items()
        number, unit = next((number, name[:-1]) for name, number in numbers if number is not None)
        return f"every {unit}" if number == 1 else f"every {number:g} {unit}s"


EVERY_STEP = Every(steps=1)
"""Each step of the loop."""

EVERY_EPOCH = Every(epochs=1)
"""The last step of each epoch."""


def as_every(period: Every | str) -> Every:
    """Converts a period, an `Every` or a string, to an `Every`.

    Raises:
        PeriodError: `period` is neither an `Every` nor a string that `Every.parse` accepts.
    """
    return period if isinstance(period, Every) else Every.parse(period)


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
