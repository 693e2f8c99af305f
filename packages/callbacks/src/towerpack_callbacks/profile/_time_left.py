"""Estimates the remaining time of the training."""

from __future__ import annotations

import logging
import statistics
import time
from collections import deque
from typing import final

from ..callback import Callback, check_count

__all__ = ["EstimatedTimeLeft", "describe_seconds"]

_log = logging.getLogger("towerpack_callbacks")


@final
class EstimatedTimeLeft(Callback):
    """Logs the estimated remaining time at each trigger, including callbacks.

    It logs nothing in a loop without a last epoch.

    Args:
        last_k_epochs: the number of latest epochs for the estimate.
        median: use the median of their times instead of the mean.

    Raises:
        ValueError: `last_k_epochs` is not a positive whole number.
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
        loop = self.trainer.loop
        if loop.max_epoch is None or not self._seconds_per_step:
            return None
        epochs, in_this_one = loop.max_epoch - loop.epoch_num, loop.steps_per_epoch - 1 - loop.local_step
        steps = epochs * loop.steps_per_epoch + in_this_one
        return steps * float(self._average(self._seconds_per_step))


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
