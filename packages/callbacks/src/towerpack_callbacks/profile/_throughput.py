"""Measures the training throughput in steps or samples per second."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import final

from ..callback import Callback

__all__ = ["ThroughputTracker"]


@final
class ThroughputTracker(Callback):
    """Puts the throughput since the last trigger, without the time of callbacks between epochs.

    The statistic is `Throughput/steps_per_second`, or `Throughput/samples_per_second`.

    Args:
        samples_per_step: the *total* batch size of a step, over all towers and processes; None to count
            steps.

    Raises:
        ValueError: `samples_per_step` is not a positive number.
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
