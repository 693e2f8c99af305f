"""Shows a progress bar for each epoch."""

from __future__ import annotations

import contextlib
import io
import logging
import sys
from collections.abc import Sequence
from typing import Any, final

from tqdm import tqdm
from tqdm.contrib.logging import logging_redirect_tqdm

from ..callback import Callback, Every, StepFetch

__all__ = ["ProgressBar"]

_SECONDS, _SECONDS_IN_A_FILE = 0.2, 30.0


@final
class _Bar(tqdm):  # type: ignore[type-arg]
    """A tqdm bar without a monitor thread, which would outlive the training."""

    monitor_interval = 0


@final
class _Lines(io.TextIOBase):
    """Standard error without a terminal: each state of the bar becomes a new line."""

    def write(self, text: str) -> int:
        if shown := text.strip():
            sys.stderr.write(f"{shown}\n")
        return len(text)

    def flush(self) -> None:
        sys.stderr.flush()


@final
class ProgressBar(Callback):
    """Shows each epoch's progress, with tqdm, on standard error.

    Log lines are printed above the bar. If standard error is not a terminal, an epoch longer than half a
    minute prints a line every half minute instead of a bar.

    Args:
        names: one or more names of scalar tensors to show next to the bar.
        every_k_steps: the period of fetching them.
    """

    def __init__(self, names: str | Sequence[str] = (), every_k_steps: int = 10) -> None:
        self._names = (names,) if isinstance(names, str) else tuple(names)
        self._every = Every(steps=every_k_steps)
        self._tensors: list[Any] = []
        self._bar: _Bar | None = None
        self._logs = contextlib.ExitStack()

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
        self._logs.enter_context(logging_redirect_tqdm(_loggers_of_consoles(), _Bar))
        is_terminal = sys.stderr.isatty()
        self._bar = _Bar(
            desc=f"epoch {loop.epoch_num}{end}",
            total=loop.steps_per_epoch,
            initial=first,
            unit="step",
            file=sys.stderr if is_terminal else _Lines(),
            dynamic_ncols=is_terminal,
            mininterval=0,  # our period limits updates
            miniters=1,
            delay=0 if is_terminal else _SECONDS_IN_A_FILE,
            leave=is_terminal,
        )

    def step_period(self) -> Every:
        return Every(seconds=_SECONDS if sys.stderr.isatty() else _SECONDS_IN_A_FILE)

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
        self._logs.close()


def _loggers_of_consoles() -> list[logging.Logger]:
    """Returns the loggers that would write into the bar, including the root with its last-resort handler."""
    named = [
        logger for logger in logging.root.manager.loggerDict.values() if isinstance(logger, logging.Logger)
    ]
    streams = {sys.stdout, sys.stderr}
    return [
        logging.root,
        *(logger for logger in named if any(getattr(h, "stream", None) in streams for h in logger.handlers)),
    ]
