"""Measures in the first steps whether several steps in one session call are faster than single steps."""

from __future__ import annotations

from statistics import median
from typing import ClassVar, final

__all__ = ["SpeedTrial"]

# The number of warm-up steps, of warm-up calls with several steps, and of compared steps of either kind.
_WARM_UP, _WARM_UP_CALLS, _COMPARED = 30, 2, 60
# Longer steps gain nothing.
_LONGEST_STEP = 0.02  # seconds


@final
class SpeedTrial:
    """Compares the times of single steps with those of steps in calls of several.

    Attributes:
        SINGLES: the number of single steps before calls of several steps are tried.
    """

    SINGLES: ClassVar[int] = _WARM_UP + _COMPARED

    def __init__(self) -> None:
        self._is_faster: bool | None = None
        self._singles: list[float] = []
        self._calls, self._seconds, self._steps = 0, 0.0, 0

    @property
    def is_faster(self) -> bool | None:
        """Whether several steps in one call are faster; None until the comparison is complete."""
        return self._is_faster

    @property
    def has_singles(self) -> bool:
        """Whether enough single steps have been timed."""
        return len(self._singles) == self.SINGLES

    def note_single(self, seconds: float) -> None:
        """Adds the time of one step, including the loop's work around it."""
        self._singles.append(seconds)
        if self.has_singles and self._single() > _LONGEST_STEP:
            self._is_faster = False

    def note_several(self, seconds: float, steps: int) -> None:
        """Adds the time of a call with several steps."""
        self._calls += 1
        if self._calls <= _WARM_UP_CALLS:
            return
        self._seconds += seconds
        self._steps += steps
        if self._steps >= _COMPARED:
            self._is_faster = self._seconds / self._steps < self._single()

    def _single(self) -> float:
        return median(self._singles[_WARM_UP:])
