"""Triggers another callback at other times than once an epoch."""

from __future__ import annotations

from typing import final

from ._callback import Callback, ProxyCallback
from ._errors import PeriodError
from ._period import EVERY_STEP, Every

__all__ = ["PeriodicTrigger"]


@final
class PeriodicTrigger(ProxyCallback):
    """Calls `callback.trigger()` every so many steps or epochs, instead of once each epoch.

    All other methods of the callback are left as they are.

    Args:
        callback: the callback to trigger.
        every_k_steps: trigger when `global_step` is a multiple of this.
        every_k_epochs: trigger after epochs whose number is a multiple of this. May be combined with steps.
        before_train: trigger once before the first step, too.

    Raises:
        PeriodError: no period was given, or not a positive whole number.

    Example:
        ```python
        PeriodicTrigger(ModelSaver(), every_k_steps=1000)
        ```
    """

    def __init__(
        self,
        callback: Callback,
        every_k_steps: int | None = None,
        every_k_epochs: int | None = None,
        before_train: bool = False,
    ) -> None:
        super().__init__(callback)
        if every_k_steps is None and every_k_epochs is None and not before_train:
            raise PeriodError(
                f"PeriodicTrigger({callback}) was given no period. "
                "Give every_k_steps, every_k_epochs, or before_train=True."
            )
        self._steps = None if every_k_steps is None else Every(steps=every_k_steps)
        self._epochs = None if every_k_epochs is None else Every(epochs=every_k_epochs)
        self._at_start = before_train

    def step_period(self) -> Every | None:
        # A callback that watches steps by itself goes on doing so.
        own = self.callback.step_period()
        return EVERY_STEP if own is not None and self._steps is not None else own or self._steps

    def epoch_period(self) -> Every | None:
        return self._epochs

    def _before_train(self) -> None:
        self.callback._before_train()
        if self._at_start:
            self.callback.trigger()
            self.callback._after_triggers()

    def _trigger_step(self) -> None:
        own = self.callback.step_period()
        if own is not None and self._due(own):
            self.callback._trigger_step()
        if self._steps is not None and self._due(self._steps):
            self.callback.trigger()

    def _trigger_epoch(self) -> None:
        # Once is enough where a step and an epoch are due together.
        done = self._steps is not None and self._due(self._steps)
        if self._epochs is not None and self._due(self._epochs) and not done:
            self.callback.trigger()

    def _due(self, every: Every) -> bool:
        loop = self.trainer.loop
        return every.due(loop.global_step, loop.epoch_num, loop.is_last_step)
