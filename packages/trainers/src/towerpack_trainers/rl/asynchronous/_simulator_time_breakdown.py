"""The fractions of time of simulators: stepping, waiting for predictions, or waiting for the learner."""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter
from typing import final

import numpy as np

from .._time_breakdown import breakdown_as_text

__all__ = ["SimulatorTimeBreakdown"]


@final
class SimulatorTimeBreakdown:
    """Sums up the time of simulators. Each does one thing at a time; the fractions are means over simulators.

    Args:
        simulators: the number of simulators.

    Attributes:
        names: the keys of the return value of `take`.
        frames: the total number of steps of environments.
        predictions: the total number of predictions.
    """

    names = (
        "frames_per_second",
        "predictions_per_second",
        "environment_share",
        "inference_share",
        "learner_share",
        "idle_share",
    )

    def __init__(self, simulators: int) -> None:
        self.frames = self.predictions = 0
        self._seconds = np.zeros(3)  # of environments, inference, learner
        self._held = 0.0  # seconds of a full learner's queue, which blocked all simulators
        self._sent = np.full(simulators, np.nan)
        self._held_when_sent = np.zeros(simulators)
        self._asked = np.zeros(simulators)
        self._last = (perf_counter(), 0, 0, self._seconds.copy())

    def arrived(self, simulator: int, frames: int) -> None:
        """Records the arrival of a simulator's states."""
        self.frames += frames
        seconds = perf_counter() - self._sent[simulator]
        if not np.isnan(seconds):
            held = min(self._held - self._held_when_sent[simulator], seconds)
            self._seconds[0] += seconds - held
            self._seconds[2] += held

    def held_up(self, seconds: float) -> None:
        """Records the time of a full learner's queue."""
        self._held += seconds
        self._seconds[2] += seconds

    def asked(self, simulator: int, predictions: int) -> None:
        """Records a request for predictions."""
        self.predictions += predictions
        self._asked[simulator] = perf_counter()

    def sent(self, simulator: int) -> None:
        """Records the sending of its actions."""
        now = perf_counter()
        self._seconds[1] += now - self._asked[simulator]
        self._sent[simulator] = now
        self._held_when_sent[simulator] = self._held

    def take(self) -> dict[str, float]:
        """Returns rates and fractions since the last call; the rest is idle time."""
        now, seconds = perf_counter(), self._seconds.copy()
        began, frames, predictions, before = self._last
        self._last = (now, self.frames, self.predictions, seconds)
        passed = max(now - began, 1e-9)
        busy = ((seconds - before) / (passed * len(self._sent))).tolist()
        rates = [(self.frames - frames) / passed, (self.predictions - predictions) / passed]
        return dict(zip(self.names, [*rates, *busy, max(1 - sum(busy), 0.0)]))

    def as_text(self, taken: Mapping[str, float]) -> str:
        """Formats the return value of `take`."""
        frames, predictions = taken["frames_per_second"], taken["predictions_per_second"]
        shares = breakdown_as_text(taken)
        return f"{frames:,.0f} frames/s, {predictions:,.0f} predictions/s; the time of simulators: {shares}"
