"""A wrapper that triggers a callback at a given period."""

from __future__ import annotations

from typing import final

from ..._errors import PeriodError
from .._callback import Callback
from .._due_schedule import Ticker
from .._every import EVERY_STEP, Every, as_every
from .._proxy_callback import ProxyCallback

__all__ = ["PeriodicTrigger"]


@final
class PeriodicTrigger(ProxyCallback):
    """Calls `callback.trigger()` at a given period, instead of once each epoch.

    All other methods of the callback are unchanged. Periods may be combined; at a step where several are due,
    the callback is triggered once.

    Args:
        callback: the callback to trigger.
        every_k_steps: trigger when `global_step` is a multiple of this.
        every_k_epochs: trigger after epochs that are multiples of this number.
        before_train: also trigger once before the first step.
        every: a period as an `Every` or a string, such as "10 min".

    Raises:
        PeriodError: no period is given, or a period is not a positive whole number.

    Example:
        ```python
        PeriodicTrigger(ModelSaver(), every_k_steps=1000)
        PeriodicTrigger(ModelSaver(), every="10 min")
        ```
    """

    def __init__(
        self,
        callback: Callback,
        every_k_steps: int | None = None,
        every_k_epochs: int | None = None,
        before_train: bool = False,
        every: Every | str | None = None,
    ) -> None:
        super().__init__(callback)
        periods = [] if every is None else [as_every(every)]
        if every_k_steps is not None:
            periods.append(Every(steps=every_k_steps))
        if every_k_epochs is not None:
            periods.append(Every(epochs=every_k_epochs))
        if not periods and not before_train:
            raise PeriodError(
                f"PeriodicTrigger({callback}) was given no period. "
                "Give every_k_steps, every_k_epochs, every, or before_train=True."
            )
        self._within = [Ticker(period) for period in periods if period.epochs is None]
        self._epochs = [period for period in periods if period.epochs is not None]
        self._at_start = before_train
        self._own: Ticker | None = None
        self._triggered_at: int | None = None

    def step_period(self) -> Every | None:
        # A callback with a step period keeps it.
        wanted = [ticker.every for ticker in self._within]
        own = self.callback.step_period()
        if own is not None:
            wanted.append(own)
        if not wanted:
            return None
        return wanted[0] if len(wanted) == 1 else EVERY_STEP

    def epoch_period(self) -> Every | None:
        return self._epochs[0] if self._epochs else None

    def _before_train(self) -> None:
        self._triggered_at = None
        self.callback._before_train()
        own = self.callback.step_period()
        self._own = None if own is None else Ticker(own)
        for ticker in self._within:
            ticker.restart()
        if self._at_start:
            self.callback.trigger()
            self.callback._after_triggers()

    def _trigger_step(self) -> None:
        # The loop has already checked a single period; a second Ticker for seconds would disagree with it.
        alone = len(self._within) + (self._own is not None) == 1
        if self._own is not None and (alone or self._due(self._own)):
            self.callback._trigger_step()
        due = [
            self._due(ticker) for ticker in self._within
        ]  # check all of them, so that each Ticker stays current
        if self._within and (alone or any(due)):
            self._triggered_at = self.global_step
            self.callback.trigger()

    def _trigger_epoch(self) -> None:
        # Trigger only once if a step and an epoch are due together.
        loop = self.trainer.loop
        due = any(every.due(loop.global_step, loop.epoch_num, loop.is_last_step) for every in self._epochs)
        if due and self._triggered_at != loop.global_step:
            self.callback.trigger()

    def _due(self, ticker: Ticker) -> bool:
        loop = self.trainer.loop
        now = loop.global_step, loop.epoch_num, loop.is_last_step
        return ticker.due(*now, env_steps=loop.env_steps_passed)
