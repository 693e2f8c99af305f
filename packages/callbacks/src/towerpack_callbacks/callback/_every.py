"""The counters of a run, periods counted by them, and the items due at a step; argument checks."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar, final

import attrs

from .._errors import PeriodError, StopTraining

__all__ = [
    "EVERY_EPOCH",
    "EVERY_STEP",
    "DueSchedule",
    "Every",
    "LoopState",
    "Ticker",
    "as_every",
    "check_choice",
    "check_count",
    "check_function",
    "check_number_above_zero",
    "describe_seconds",
]


def check_count(
    shown: str,
    value: object,
    at_least: int = 1,
    optional: bool = False,
    error: type[ValueError] = ValueError,
) -> None:
    """Checks that an argument is a whole number of at least a given size.

    Args:
        shown: the argument as the message shows it, such as "EarlyStopping(patience=0)".
        value: the argument.
        at_least: the smallest number allowed.
        optional: whether None is also allowed.
        error: type of the exception.

    Raises:
        ValueError: the argument is not a whole number, or too small; the type is `error`.
    """
    if optional and value is None:
        return
    if not isinstance(value, int) or isinstance(value, bool) or value < at_least:
        or_none = ", or None" if optional else ""
        raise error(f"{shown}: expected a whole number of at least {at_least}{or_none}.")


def check_number_above_zero(shown: str, value: object, error: type[ValueError] = ValueError) -> None:
    """Checks that an argument is a finite number above 0.

    Args:
        shown: the argument as the message shows it.
        value: the argument.
        error: type of the exception.

    Raises:
        ValueError: the argument is not a finite number above 0; the type is `error`.
    """
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not 0 < value < float("inf"):  # type: ignore[operator]
        raise error(f"{shown}: expected a number above 0.")


def check_function(expected: str, value: object) -> None:
    """Checks that an argument can be called.

    Args:
        expected: the begin of the message, such as "RunOp takes a function".
        value: the argument.

    Raises:
        TypeError: the argument cannot be called.
    """
    if not callable(value):
        raise TypeError(f"{expected}, received {value!r}.")


def check_choice(shown: str, value: object, choices: Sequence[str]) -> None:
    """Checks that an argument is one of some strings.

    Args:
        shown: the argument as the message shows it.
        value: the argument.
        choices: the strings allowed.

    Raises:
        ValueError: the argument is not one of the choices.
    """
    if value not in choices:
        expected = " or ".join(f'"{choice}"' for choice in choices)
        raise ValueError(f"{shown}: expected {expected}.")


@final
@attrs.define
class LoopState:
    """The counters of one run.

    | moment | epoch_num | local_step | global_step |
    | --- | --- | --- | --- |
    | before_train | starting_epoch - 1 | -1 | 0, or the checkpoint's |
    | before the i-th step (from 0) of epoch e | e | i | steps finished so far |
    | after that step's run, and in trigger_step | e | i | one more than before |
    | after_epoch, trigger_epoch | e | steps_per_epoch - 1 | all of e counted |

    Attributes:
        steps_per_epoch: steps in an epoch; an epoch is only the default period of callbacks.
        max_epoch: the last epoch to run; None if the loop itself sets no limit.
        starting_epoch: the first epoch of this run; not 1 if the run is resumed.
        starting_step: the first local step of the first epoch; not 0 when a run resumes inside an epoch. It
            is `steps_per_epoch` if all steps of the epoch are done and only its triggers are pending.
        epoch_num: the running epoch, from 1.
        local_step: the running step within the epoch, from 0.
        global_step: finished steps since the training began.
        evaluation_batches: the maximum number of batches of an evaluation; None: its whole input. Set by
            dry runs.
        env_steps: steps that an agent has taken in its environments since the training began. The agent's
            trainer advances it, also between the triggers of a step and the next step; 0 in other trainings.
        observed_env_steps: the value of `env_steps` at the triggers of the previous step. Periods in
            `env_steps` are due when a multiple lies between the two, so a resume does not affect them.
        stop: the `StopTraining` raised by a trigger of this step, after which no step follows; for
            `_after_triggers`. None if no trigger raised it.
        record: a function that records a time span of the run: name, category, begin and end in seconds of
            `time.perf_counter()`. None if time spans are not recorded. May be called from any thread.
        spent: measured seconds of this run by activity: "wait" for data, "save" while steps wait for a
            checkpoint.
        ended_by: the exception that ended the training, for `_after_train`: an error, or a `StopTraining`
            with the reason. None at other times, after all epochs, and in a loop that does not set it.
        triggers_due: whether the triggers at the end of the running epoch are pending.
        data_ended: whether the training data ended after the last finished step. Set by the trainer.

    Example:
        >>> loop = LoopState(steps_per_epoch=100, max_epoch=3)
        >>> loop.epoch_num, loop.local_step, loop.global_step
        (0, -1, 0)
    """

    steps_per_epoch: int
    max_epoch: int | None = None
    starting_epoch: int = 1
    starting_step: int = 0
    epoch_num: int = attrs.field(default=attrs.Factory(lambda self: self.starting_epoch - 1, takes_self=True))
    local_step: int = -1
    global_step: int = 0
    evaluation_batches: int | None = None
    env_steps: int = 0
    observed_env_steps: int = 0
    stop: StopTraining | None = attrs.field(default=None, eq=False)
    record: Callable[[str, str, float, float], None] | None = attrs.field(default=None, eq=False, repr=False)
    spent: dict[str, float] = attrs.field(factory=dict, eq=False, repr=False)
    ended_by: BaseException | None = attrs.field(default=None, eq=False, repr=False)
    triggers_due: bool = attrs.field(default=False, eq=False, repr=False)
    data_ended: bool = attrs.field(default=False, eq=False, repr=False)

    @property
    def is_last_step(self) -> bool:
        """Whether the running step is the last one of its epoch."""
        return self.local_step == self.steps_per_epoch - 1

    @property
    def steps_left(self) -> int | None:
        """The number of steps after the running one, until the last epoch ends; None if there is no limit."""
        if self.max_epoch is None:
            return None
        return (self.max_epoch - self.epoch_num + 1) * self.steps_per_epoch - 1 - self.local_step

    @property
    def env_steps_passed(self) -> tuple[int, int]:
        """The values of `env_steps` at the triggers of the previous step, and now."""
        return self.observed_env_steps, self.env_steps

    def spend(self, what: str, seconds: float) -> None:
        """Adds seconds to the time spent on an activity."""
        self.spent[what] = self.spent.get(what, 0.0) + seconds

    def state_dict(self) -> dict[str, Any]:
        """Returns the counters that a checkpoint keeps, as of the last finished step."""
        begun = self.epoch_num >= self.starting_epoch
        state = {
            "epoch_num": self.epoch_num if begun else self.starting_epoch,
            "local_step": self.local_step if begun else self.starting_step - 1,
            "global_step": self.global_step,
            "steps_per_epoch": self.steps_per_epoch,
        }
        if (self.triggers_due and self.is_last_step) if begun else self.starting_step >= self.steps_per_epoch:
            state["triggers_due"] = True
        if self.env_steps:
            state |= {"env_steps": self.env_steps, "observed_env_steps": self.observed_env_steps}
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues after the last finished step of the run that made `state`.

        If `triggers_due` is set in it, all steps of the epoch are done, and its end runs first.
        """
        self.global_step = int(state["global_step"])
        self.env_steps = int(state.get("env_steps", 0))
        self.observed_env_steps = int(state.get("observed_env_steps", self.env_steps))
        epoch, next_step = int(state["epoch_num"]), int(state["local_step"]) + 1
        if state.get("triggers_due", False):
            next_step = self.steps_per_epoch
        elif next_step >= int(state["steps_per_epoch"]) or next_step >= self.steps_per_epoch:
            epoch, next_step = epoch + 1, 0
        self.starting_epoch, self.starting_step = max(epoch, 1), next_step
        self.epoch_num = self.starting_epoch - 1
        self.local_step = -1


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


def describe_seconds(seconds: float) -> str:
    """Formats a time in its two largest units.

    Example:
        >>> describe_seconds(93784), describe_seconds(59.6), describe_seconds(3600)
        ('1 day 2 hours', '1 minute', '1 hour')
    """
    left = round(seconds)
    parts: list[tuple[int, str]] = []
    for unit, size in (("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1)):
        number, left = divmod(left, size)
        if number or (parts and len(parts) < 2):
            parts.append((number, unit))
    shown = [f"{number} {unit}{'' if number == 1 else 's'}" for number, unit in parts[:2] if number]
    return " ".join(shown) or "0 seconds"
