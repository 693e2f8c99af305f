"""Interleaved rounds: what is compared is measured in turn, so that a busy machine slows all alike."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from statistics import median

Figures = dict[str, list[float]]


def measure(subjects: Mapping[str, Callable[[], float]], rounds: int) -> Figures:
    """Measures each subject once per round, in turn; every second round in the opposite order.

    Args:
        subjects: functions that measure and return one figure, warmed up already.
        rounds: how many figures to take of each.

    Returns:
        The figures of each subject, one per round.
    """
    figures: Figures = {}
    for number in range(rounds):
        _round(number, subjects, figures)
    return figures


def measure_afresh(
    start: Callable[[], AbstractContextManager[Mapping[str, Callable[[], float]]]], rounds: int
) -> Figures:
    """Like `measure`, with subjects that are started anew, and warmed up, for each round.

    The same graph takes up to 6 % more or less time in one process than in the next, always the same within
    each: it depends on where its memory happens to lie.
    """
    figures: Figures = {}
    for number in range(rounds):
        with start() as subjects:
            for run in subjects.values():
                run()
            _round(number, subjects, figures)
    return figures


def _round(number: int, subjects: Mapping[str, Callable[[], float]], figures: Figures) -> None:
    for name in list(subjects)[:: -1 if number % 2 else 1]:
        figures.setdefault(name, []).append(subjects[name]())


def ratios(one: list[float], other: list[float]) -> list[float]:
    """The quotient of two subjects' figures, round by round."""
    return [a / b for a, b in zip(one, other)]


def summary(values: list[float], form: str) -> str:
    """Median and range of some figures, each in the given format."""
    return f"{format(median(values), form)}  ({format(min(values), form)} to {format(max(values), form)})"


def load() -> str:
    """How busy the machine is, this benchmark included."""
    return f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
