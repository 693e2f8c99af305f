"""The newest value of a statistic, and its comparison with the best value so far."""

from __future__ import annotations

import math
from typing import final

from ._trainer_protocol import StatisticsStore

__all__ = ["StatisticWatch", "is_better"]


@final
class StatisticWatch:
    """Follows one statistic. Its period may be longer than the reader's, so some reads find no new value.

    Args:
        name: name of the statistic.

    Attributes:
        seen_step: the step of the value that `next_value` returned last, -1 before the first. The reader
            saves it in its state, so that a resumed run uses no value twice.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.seen_step = -1

    def value_at(self, statistics: StatisticsStore, global_step: int) -> float | None:
        """Returns the newest value if it was put at the given step, else None."""
        newest = self._newest(statistics)
        return newest[1] if newest is not None and newest[0] == global_step else None

    def next_value(self, statistics: StatisticsStore) -> float | None:
        """Returns the newest value if its step differs from that of the last call, else None."""
        newest = self._newest(statistics)
        if newest is None or newest[0] == self.seen_step:
            return None
        self.seen_step, value = newest
        return value

    def _newest(self, statistics: StatisticsStore) -> tuple[int, float] | None:
        return statistics.get_history(self.name)[-1] if self.name in statistics else None


def is_better(value: float, best: float | None, mode: str, min_delta: float = 0.0) -> bool:
    """Returns whether a value is better than the best value so far.

    Args:
        value: the value; NaN is never better.
        best: the best value so far, or None.
        mode: "max" if higher is better, "min" if lower is.
        min_delta: the minimum improvement.

    Example:
        >>> is_better(0.5, 0.6, "min"), is_better(0.5, 0.6, "min", 0.2), is_better(0.5, None, "max")
        (True, False, True)
    """
    if math.isnan(value):
        return False
    return best is None or (value - best if mode == "max" else best - value) > min_delta
