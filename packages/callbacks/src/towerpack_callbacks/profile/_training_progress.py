"""The throughput and the remaining time of a training."""

from __future__ import annotations

import logging
import statistics
import time
from collections import deque
from collections.abc import Sequence
from typing import final

from ..callback._callback import Callback
from ..callback._every import check_count, describe_seconds

__all__ = ["EstimatedTimeLeft", "ThroughputTracker"]

_log = logging.getLogger("towerpack_callbacks")


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
