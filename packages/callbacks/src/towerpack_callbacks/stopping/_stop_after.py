"""Stops a training after a fixed amount of steps, epochs or time."""

from __future__ import annotations

from typing import final

from .._errors import StopTraining
from ..callback import Callback, Every, as_every

__all__ = ["StopAfter"]


@final
class StopAfter(Callback):
    """Ends the training after a number of steps, epochs, seconds or environment steps.

    The number applies to the whole training: a resumed run that has already reached it runs no step. Only
    seconds count from the start of this run. All triggers due at that step run first: a saver with the same
    period writes the last state.

    Args:
        amount: the limit, as an `Every` or a string.

    Raises:
        PeriodError: the amount is not a valid period.

    Example:
        ```python
        callbacks = [PeriodicTrigger(ModelSaver(), every="50000 env_steps"), StopAfter("1000000 env_steps")]
        ```
    """

    def __init__(self, amount: Every | str) -> None:
        self._amount = as_every(amount)

    def step_period(self) -> Every | None:
        return self._amount if self._amount.epochs is None else None

    def epoch_period(self) -> Every | None:
        return self._amount if self._amount.epochs is not None else None

    def _before_train(self) -> None:
        # A new or resumed run has finished the epochs before `epoch_num + 1`.
        self._stop_if_done()

    def _trigger_step(self) -> None:
        if self._amount.seconds is not None:
            raise StopTraining(f"the limit of {self} is reached")
        self._stop_if_done()

    def _trigger_epoch(self) -> None:
        if self._amount.epochs is not None:
            self._stop_if_done()

    def _stop_if_done(self) -> None:
        amount = self._amount
        pairs = (
            (amount.steps, self.global_step),
            (amount.epochs, self.epoch_num),
            (amount.env_steps, self.env_steps),
        )
        if any(limit is not None and done >= limit for limit, done in pairs):
            raise StopTraining(f"the limit of {self} is reached")

    def __str__(self) -> str:
        return f"StopAfter({str(self._amount).removeprefix('every ')!r})"
