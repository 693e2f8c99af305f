"""What a training by acting says of itself: the returns of episodes, and where its time goes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import numpy as np

from towerpack_callbacks import Callback

from ._time_shares import Shares
from .environments import FinishedEpisodes

__all__ = ["ActingReport"]


@final
class ActingReport(Callback):
    """Records the returns of finished episodes, and each part's share of the time, once per epoch.

    Args:
        episodes: those of the environments that the training acts in.
        shares: where its time goes.
    """

    def __init__(self, episodes: FinishedEpisodes, shares: Shares) -> None:
        self._episodes, self._shares = episodes, shares

    def produces(self) -> Sequence[str]:
        """Names the statistics."""
        return ["mean_return", "episodes", *self._shares.names]

    def headlines(self) -> Sequence[str]:
        """Names the return; the shares have a line of their own."""
        return ["mean_return"]

    def _trigger_epoch(self) -> None:
        # Episodes may end meanwhile, in the thread of simulators.
        monitors, last = self.trainer.monitors, list(self._episodes.last)
        monitors.put_scalar("episodes", len(self._episodes.take_new()))
        # Before the first episode has ended there is no return to tell.
        mean = float(np.mean([each.total for each in last])) if last else np.nan
        monitors.put_scalar("mean_return", mean)
        taken = self._shares.take()
        for name, value in taken.items():
            monitors.put_scalar(name, value)
        monitors.put_message(self._shares.as_text(taken))
