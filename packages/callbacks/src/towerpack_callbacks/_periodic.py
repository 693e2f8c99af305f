"""Triggers another callback at other times than once an epoch."""

from __future__ import annotations

from typing import final

from ._callback import Callback, ProxyCallback
from ._errors import PeriodError
from ._period import Every

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
        # A callback that watches each step by itself goes on doing so.
        return self.callback.step_period() or self._steps

    def _before_train(self) -> None:
        self.callback._before_train()
        if self._at_start:
            self.callback.trigger()

    def _trigger_step(self) -> None:
        loop = self.trainer.loop
        if self.callback.step_period() is not None:
            self.callback._trigger_step()
        if self._steps is not None and self._steps.due(loop.global_step, loop.epoch_num, loop.is_last_step):
            self.callback.trigger()

    def _trigger_epoch(self) -> None:
        if self._epochs is not None and self._epochs.due(self.global_step, self.epoch_num, last_step=True):
            self.callback.trigger()
