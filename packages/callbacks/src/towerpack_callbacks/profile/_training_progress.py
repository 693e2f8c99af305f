"""The progress of a training: a bar for each epoch, the throughput, and the remaining time."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import logging
import statistics
import sys
import time
from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import Any, final

from tqdm import tqdm

from ..callback._callback import Callback, StepFetch
from ..callback._every import Every, check_count, describe_seconds
from ..summaries._add_summary import is_of_input
from ..summaries._summary_callbacks import MovingAverageSummary
from ..writing._screen import has_colours, is_in_notebook

__all__ = ["EstimatedTimeLeft", "ProgressBar", "ThroughputTracker"]

_log = logging.getLogger("towerpack_callbacks")


_SECONDS, _SECONDS_IN_A_FILE = 0.2, 30.0
_MOST_AVERAGES = 3  # more would leave no space for the bar


@final
class _Bar(tqdm):  # type: ignore[type-arg]
    """A tqdm bar without a monitor thread, which would outlive the training."""

    monitor_interval = 0


def _notebook_bar() -> type[tqdm[Any]]:
    if importlib.util.find_spec("ipywidgets") is None:
        return _Bar
    from tqdm.notebook import tqdm_notebook

    return type("_NotebookBar", (tqdm_notebook,), {"monitor_interval": 0})


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

    Log lines are printed above the bar. In a notebook the bar is a widget, or text without `ipywidgets`. If
    standard error is neither of them, an epoch longer than half a minute prints a line every half minute
    instead of a bar.

    Args:
        names: one or more names of scalar tensors to show next to the bar.
        every_k_steps: the period of fetching them.
        averages: the callback with the moving averages of the run, of which the bar shows the first three. It
            reads them when it is redrawn, so they add no work to a step.

    Example:
        >>> extra_callbacks = [ProgressBar(["cost", "accuracy"])]  # for TrainConfig(extra_callbacks=...)
    """

    def __init__(
        self,
        names: str | Sequence[str] = (),
        every_k_steps: int = 10,
        *,
        averages: MovingAverageSummary | None = None,
    ) -> None:
        self._averages = averages
        self._names = (names,) if isinstance(names, str) else tuple(names)
        self._every = Every(steps=every_k_steps)
        self._tensors: list[Any] = []
        self._bar: tqdm[Any] | None = None
        self._logs = contextlib.ExitStack()

    def _setup_graph(self) -> None:
        self._tensors = self.trainer.get_tensors(self._names)
        self._fetched: dict[str, float] = {}

    def step_fetches(self) -> Sequence[StepFetch]:
        return [StepFetch(self._tensors, self._show, self._every)] if self._tensors else []

    def _show(self, values: list[float]) -> None:
        if self._bar is not None:
            self._fetched = dict(zip(self._names, values))

    def _before_epoch(self) -> None:
        loop = self.trainer.loop
        first = loop.starting_step if loop.epoch_num == loop.starting_epoch else 0
        end = "" if loop.max_epoch is None else f"/{loop.max_epoch}"
        title = f"epoch {loop.epoch_num}{end}"
        if self._bar is not None:  # in a notebook
            self._bar.reset(loop.steps_per_epoch)
            self._bar.set_description(title, refresh=False)
            return
        if is_in_notebook():
            bar = _notebook_bar()
            options: dict[str, Any] = {"file": sys.stdout, "leave": False}
        else:
            bar, options = _Bar, self._options_outside_notebooks()
        self._bar = bar(
            desc=title,
            total=loop.steps_per_epoch,
            initial=first,
            unit="step",
            mininterval=0,  # our period limits updates
            miniters=1,
            **options,
        )

    def _options_outside_notebooks(self) -> dict[str, Any]:
        # Its import warns in a notebook without ipywidgets.
        from tqdm.contrib.logging import logging_redirect_tqdm

        self._logs.enter_context(logging_redirect_tqdm(_loggers_of_consoles(), _Bar))
        if not sys.stderr.isatty():
            return {"file": _Lines(), "delay": _SECONDS_IN_A_FILE, "leave": False}
        return {"file": sys.stderr, "dynamic_ncols": True, "colour": "green" if has_colours() else None}

    def step_period(self) -> Every:
        return Every(seconds=_SECONDS if is_in_notebook() or sys.stderr.isatty() else _SECONDS_IN_A_FILE)

    def _trigger_step(self) -> None:
        if self._bar is not None:
            shown = {
                name: f"{value:.4g}" for name, value in {**self._fetched, **self._read_averages()}.items()
            }
            self._bar.set_postfix(shown, refresh=False)
            self._bar.update(self.trainer.loop.local_step + 1 - self._bar.n)

    def _read_averages(self) -> dict[str, float]:
        if self._averages is None:
            return {}
        averages = self._averages.averages().items()
        return dict(islice((item for item in averages if not is_of_input(item[0])), _MOST_AVERAGES))

    def _after_epoch(self) -> None:
        self._trigger_step()
        if not is_in_notebook():  # where one bar serves all epochs
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


@final
class ThroughputTracker(Callback):
    """Puts the throughput since the last trigger, without the time of callbacks between epochs.

    The statistic is `Throughput/steps_per_second`, or `Throughput/samples_per_second`.

    Args:
        samples_per_step: the *total* batch size of a step, over all towers and processes; None to count
            steps.

    Raises:
        ValueError: `samples_per_step` is not a positive number.

    Example:
        >>> ThroughputTracker(samples_per_step=64).produces()
        ['Throughput/samples_per_second']
    """

    def __init__(self, samples_per_step: float | None = None) -> None:
        if samples_per_step is not None and not samples_per_step > 0:
            raise ValueError(
                f"ThroughputTracker(samples_per_step={samples_per_step!r}): expected a positive number."
            )
        self._per_step = 1.0 if samples_per_step is None else samples_per_step
        self._unit = "steps" if samples_per_step is None else "samples"
        self._clock = time.perf_counter
        self._running_since: float | None = None
        self._seconds = 0.0
        self._steps_before = 0

    def produces(self) -> Sequence[str]:
        return [f"Throughput/{self._unit}_per_second"]

    def _before_train(self) -> None:
        # A failed training may have left part of an epoch here.
        self._running_since, self._seconds, self._steps_before = None, 0.0, self.global_step

    def _before_epoch(self) -> None:
        self._running_since = self._clock()

    def _after_epoch(self) -> None:
        self._pause()
        self._running_since = None

    def _trigger(self) -> None:
        self._pause()
        steps = self.global_step - self._steps_before
        if steps and self._seconds > 0:
            (name,) = self.produces()
            self.trainer.monitors.put_scalar(name, steps * self._per_step / self._seconds)
        self._seconds, self._steps_before = 0.0, self.global_step

    def _pause(self) -> None:
        """Adds the time until now."""
        if self._running_since is not None:
            now = self._clock()
            self._seconds += now - self._running_since
            self._running_since = now


@final
class EstimatedTimeLeft(Callback):
    """Logs the estimated remaining time at each trigger, including callbacks.

    It logs nothing in a loop without a last epoch.

    Args:
        last_k_epochs: the number of latest epochs for the estimate.
        median: use the median of their times instead of the mean.

    Raises:
        ValueError: `last_k_epochs` is not a positive whole number.

    Example:
        >>> callbacks = [EstimatedTimeLeft(last_k_epochs=3)]
    """

    def __init__(self, last_k_epochs: int = 5, median: bool = True) -> None:
        check_count(f"EstimatedTimeLeft(last_k_epochs={last_k_epochs!r})", last_k_epochs)
        self._seconds_per_step: deque[float] = deque(maxlen=last_k_epochs)
        self._average = statistics.median if median else statistics.fmean
        self._clock = time.perf_counter

    def _before_train(self) -> None:
        self._seconds_per_step.clear()
        self._since, self._steps_before = self._clock(), self.global_step

    def _trigger(self) -> None:
        # From trigger to trigger, to include the time between epochs.
        now, steps = self._clock(), self.global_step - self._steps_before
        if steps:
            self._seconds_per_step.append((now - self._since) / steps)
        self._since, self._steps_before = now, self.global_step
        left = self.seconds_left()
        if left:
            _log.info("Estimated time left: %s.", describe_seconds(left))

    def seconds_left(self) -> float | None:
        """Returns the estimate in seconds; None without an estimate."""
        steps = self.trainer.loop.steps_left
        if steps is None or not self._seconds_per_step:
            return None
        return steps * float(self._average(self._seconds_per_step))
