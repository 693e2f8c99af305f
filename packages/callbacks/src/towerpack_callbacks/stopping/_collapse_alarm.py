"""Detects the collapse of a GAN by a statistic that stays beyond a limit."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, final

from .._errors import StopTraining
from ..callback import Callback, StatisticWatch, check_count

__all__ = ["CollapseAlarm", "StopAtCollapse"]

_log = logging.getLogger("towerpack_callbacks")


class _LimitWatch(Callback):
    """Counts consecutive values of a statistic beyond a limit; subclasses define the reaction."""

    def __init__(
        self,
        monitor_stat: str,
        below: float | None = None,
        above: float | None = None,
        patience: int = 3,
    ) -> None:
        shown = type(self).__name__
        if (below is None) == (above is None):
            raise ValueError(
                f"{shown}(below={below!r}, above={above!r}): expected a number for exactly one of them."
            )
        check_count(f"{shown}(patience={patience!r})", patience)
        self._watch = StatisticWatch(monitor_stat)
        self._below, self._above = below, above
        self._patience = patience
        self._count = 0

    def consumes(self) -> Sequence[str]:
        return [self._watch.name]

    def _trigger(self) -> None:
        value = self._watch.next_value(self.trainer.monitors)
        if value is None:
            return
        self._count = 0 if self._is_within(value) else self._count + 1
        if self._count >= self._patience:
            limit = f"above {self._above}" if self._below is None else f"below {self._below}"
            self._act(f"{self._watch.name} is {value:.4g}, and was {limit} in its last {self._count} values")

    def _is_within(self, value: float) -> bool:
        # NaN compares as False, so it is beyond every limit.
        low = -float("inf") if self._below is None else self._below
        high = float("inf") if self._above is None else self._above
        return low <= value <= high

    def _act(self, event: str) -> None:
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        return {"count": self._count, "seen": self._watch.seen_step}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._count, self._watch.seen_step = state["count"], state["seen"]

    def __str__(self) -> str:
        return f"{type(self).__name__}({self._watch.name!r})"


@final
class CollapseAlarm(_LimitWatch):
    """Warns that a GAN has probably collapsed when a statistic stays beyond a limit.

    Two statistics are useful: the variance of generated samples over a batch (`BatchVariance`), which falls
    when all random inputs give the same output; and the discriminator's accuracy, which stays at 1 when the
    generator can no longer improve. The callback warns once, and again after values within the limit.

    Args:
        monitor_stat: name of the statistic; its producer must come before.
        below: warn when values stay below this.
        above: warn when values stay above this; give exactly one of `below` and `above`.
        patience: the number of consecutive values beyond the limit. NaN also counts as beyond.

    Raises:
        ValueError: an argument is invalid.

    Example:
        ```python
        callbacks = [BatchVariance("gen/out"), CollapseAlarm("gen/out_variance", below=0.01)]
        ```
    """

    def _act(self, event: str) -> None:
        if self._count == self._patience:
            _log.warning("The GAN seems to have collapsed: %s.", event)


@final
class StopAtCollapse(_LimitWatch):
    """Ends the training when a GAN has probably collapsed; otherwise like `CollapseAlarm`.

    Args:
        monitor_stat: name of the statistic; its producer must come before.
        below: stop when values stay below this.
        above: stop when values stay above this; give exactly one of `below` and `above`.
        patience: how many values in a row must be beyond the limit.

    Raises:
        ValueError: an argument is invalid.

    Example:
        ```python
        StopAtCollapse("discriminator_accuracy", above=0.99, patience=10)
        ```
    """

    def _act(self, event: str) -> None:
        raise StopTraining(f"the GAN seems to have collapsed: {event}")
