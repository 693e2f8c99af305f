"""Says after each epoch whether the data or the model was the slower one."""

from __future__ import annotations

import logging
from typing import final

from towerpack_callbacks import Callback
from towerpack_inputsource import InputSource, InputStatus

__all__ = ["InputReport", "describe_epoch"]

_log = logging.getLogger("towerpack_trainers")

# Between these shares neither is clearly the slower one.
_DATA_IS_SLOWER, _MODEL_IS_SLOWER = 0.9, 0.6


def describe_epoch(spent: InputStatus) -> str | None:
    """One line on where the time of the input's threads went; None for an input without threads.

    A thread that never waits for room in its queue is behind the model all the time; one that often does is
    ahead of it.

    Args:
        spent: the input's status since the epoch began (`InputStatus.since`).
    """
    busy = [thread for thread in spent.threads if thread.seconds_in_flow + thread.seconds_in_put > 0]
    if not busy:
        return None
    share = max(thread.flow_share for thread in busy)
    if share > _DATA_IS_SLOWER:
        verdict = "the data is the bottleneck"
    elif share < _MODEL_IS_SLOWER:
        verdict = "the model is the bottleneck"
    else:
        verdict = "data and model are about even"
    return f"{verdict}: {share:.0%} of its time the input was at work on the next datapoint"


@final
class InputReport(Callback):
    """Logs `describe_epoch` after each epoch.

    Args:
        source: the training's input.
    """

    def __init__(self, source: InputSource) -> None:
        self._source = source

    def _before_epoch(self) -> None:
        self._earlier = self._source.status()

    def _after_epoch(self) -> None:
        line = describe_epoch(self._source.status().since(self._earlier))
        if line is not None:
            _log.info("epoch %d: %s", self.epoch_num, line)
