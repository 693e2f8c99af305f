"""A progress bar for each epoch."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, final

from tqdm import tqdm

from ..callback import Callback, Every, StepFetch

__all__ = ["ProgressBar"]


class _Bar(tqdm):  # type: ignore[type-arg]
    """A bar without tqdm's monitor thread, which would outlive the training."""

    monitor_interval = 0


@final
class ProgressBar(Callback):
    """Shows each epoch's progress, with tqdm, on standard error.

    Args:
        names: the name of a scalar tensor to show beside the bar, or several.
        every_k_steps: how often those are fetched.
    """

    def __init__(self, names: str | Sequence[str] = (), every_k_steps: int = 10) -> None:
        self._names = (names,) if isinstance(names, str) else tuple(names)
        self._every = Every(steps=every_k_steps)
        self._tensors: list[Any] = []
        self._bar: _Bar | None = None

    def _setup_graph(self) -> None:
        self._tensors = self.trainer.get_tensors(self._names)

    def step_fetches(self) -> Sequence[StepFetch]:
        return [StepFetch(self._tensors, self._show, self._every)] if self._tensors else []

    def _show(self, values: list[float]) -> None:
        if self._bar is not None:
            shown = {name: f"{value:.4g}" for name, value in zip(self._names, values)}
            self._bar.set_postfix(shown, refresh=False)

    def _before_epoch(self) -> None:
        loop = self.trainer.loop
        first = loop.starting_step if loop.epoch_num == loop.starting_epoch else 0
        end = "" if loop.max_epoch is None else f"/{loop.max_epoch}"
        self._bar = _Bar(
            desc=f"epoch {loop.epoch_num}{end}",
            total=loop.steps_per_epoch,
            initial=first,
            unit="step",
            dynamic_ncols=True,
            mininterval=0,  # our own period is enough
            miniters=1,
        )

    def step_period(self) -> Every:
        # In a log file a redrawn bar is a new line each time.
        return Every(seconds=0.2 if sys.stderr.isatty() else 30)

    def _trigger_step(self) -> None:
        if self._bar is not None:
            self._bar.update(self.trainer.loop.local_step + 1 - self._bar.n)

    def _after_epoch(self) -> None:
        self._trigger_step()
        self._close()

    def _after_train(self) -> None:
        self._close()

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None
