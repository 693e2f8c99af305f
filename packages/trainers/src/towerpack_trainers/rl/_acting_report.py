"""Reports on the acting of an agent: the returns of episodes, and the fractions of time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import numpy as np

from towerpack_callbacks import Callback

from ._time_breakdown import TimeBreakdown
from .environments import FinishedEpisodes

__all__ = ["ActingReport"]


@final
class ActingReport(Callback):
    """Records the returns of finished episodes, and the fraction of time of each part, once per epoch.

    Args:
        episodes: the finished episodes of the training's environments.
        time_breakdown: the fractions of time.
    """

    def __init__(self, episodes: FinishedEpisodes, time_breakdown: TimeBreakdown) -> None:
        self._episodes, self._breakdown = episodes, time_breakdown

    def produces(self) -> Sequence[str]:
        """Returns the names of the statistics."""
        return ["mean_return", "episodes", *self._breakdown.names]

    def headlines(self) -> Sequence[str]:
        """Returns the name of the return only; the fractions have a separate line."""
        return ["mean_return"]

    def _trigger_epoch(self) -> None:
        # Episodes may end at the same time, in the simulators' thread.
        monitors, last = self.trainer.monitors, list(self._episodes.last)
        monitors.put_scalar("episodes", len(self._episodes.take_new()))
        # Before the end of the first episode there is no return to report.
        mean = float(np.mean([each.total for each in last])) if last else np.nan
        monitors.put_scalar("mean_return", mean)
        taken = self._breakdown.take()
        for name, value in taken.items():
            monitors.put_scalar(name, value)
        monitors.put_message(self._breakdown.as_text(taken))
