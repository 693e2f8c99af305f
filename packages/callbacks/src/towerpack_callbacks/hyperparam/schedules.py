"""Schedules: pure functions from the progress of a training, 0 to 1, to a value.

They do not depend on a training, so they can be plotted, tested and combined. `over` converts one to a
function for `HyperParamSetterWithFunc`. Progress outside of 0 to 1 is clipped.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

__all__ = ["Schedule", "cosine", "exponential", "one_cycle", "over", "polynomial", "warm_up"]

Schedule = Callable[[float], float]
"""A function from progress to a value."""


def cosine(start: float, end: float = 0.0) -> Schedule:
    """Moves from `start` to `end` along half a cosine wave (Loshchilov and Hutter, 2016).

    Example:
        >>> [round(cosine(1.0, 0.0)(progress), 3) for progress in (0, 0.25, 0.5, 1)]
        [1.0, 0.854, 0.5, 0.0]
    """
    return lambda progress: end + (start - end) * (1 + math.cos(math.pi * _clip(progress))) / 2


def polynomial(start: float, end: float = 0.0, power: float = 1.0) -> Schedule:
    """Moves from `start` to `end` as `(1 - progress) ** power`; linear for a power of 1.

    Raises:
        ValueError: the power is not above 0.

    Example:
        >>> [polynomial(1.0, 0.0, power=2)(progress) for progress in (0, 0.5, 1)]
        [1.0, 0.25, 0.0]
    """
    if not power > 0:
        raise ValueError(f"polynomial(power={power!r}): expected a number above 0.")
    return lambda progress: end + (start - end) * (1 - _clip(progress)) ** power


def exponential(start: float, end: float) -> Schedule:
    """Moves from `start` to `end` exponentially: by the same factor in equal times.

    Raises:
        ValueError: `start` or `end` is not above 0.

    Example:
        >>> round(exponential(1.0, 0.01)(0.5), 6)
        0.1
    """
    if not (start > 0 and end > 0):
        raise ValueError(f"exponential({start!r}, {end!r}): expected numbers above 0.")
    return lambda progress: start * (end / start) ** _clip(progress)


def warm_up(schedule: Schedule, fraction: float, start: float = 0.0) -> Schedule:
    """Adds a linear warm-up from `start` before a schedule, which takes the remaining progress.

    Args:
        schedule: the schedule after the warm-up.
        fraction: the fraction of the progress for the warm-up, at least 0 and below 1.
        start: the first value.

    Raises:
        ValueError: the fraction is out of range.

    Example:
        >>> [round(warm_up(cosine(1.0), 0.2)(progress), 3) for progress in (0, 0.1, 0.2, 0.6, 1)]
        [0.0, 0.5, 1.0, 0.5, 0.0]
    """
    if not 0 <= fraction < 1:
        raise ValueError(f"warm_up(fraction={fraction!r}): expected a number with 0 <= fraction < 1.")

    def warmed(progress: float) -> float:
        progress = _clip(progress)
        if progress < fraction:
            return start + (schedule(0.0) - start) * progress / fraction
        return schedule((progress - fraction) / (1 - fraction))

    return warmed


def one_cycle(
    peak: float, warm_up_fraction: float = 0.3, start_divisor: float = 25.0, end_divisor: float = 1e4
) -> Schedule:
    """Rises to `peak` and falls again, each along half a cosine wave ("1cycle", Smith and Topin, 2017).

    Args:
        peak: the highest value.
        warm_up_fraction: the fraction of the progress in which the value rises, above 0 and below 1.
        start_divisor: the initial value is `peak / start_divisor`.
        end_divisor: the final value is `peak / start_divisor / end_divisor`.

    Raises:
        ValueError: the fraction is out of range.

    Example:
        >>> [round(one_cycle(1.0)(progress), 3) for progress in (0, 0.3, 0.65, 1)]
        [0.04, 1.0, 0.5, 0.0]
    """
    if not 0 < warm_up_fraction < 1:
        raise ValueError(
            f"one_cycle(warm_up_fraction={warm_up_fraction!r}): expected a number between 0 and 1."
        )
    first = peak / start_divisor
    rise, fall = cosine(first, peak), cosine(peak, first / end_divisor)

    def cycle(progress: float) -> float:
        progress = _clip(progress)
        if progress < warm_up_fraction:
            return rise(progress / warm_up_fraction)
        return fall((progress - warm_up_fraction) / (1 - warm_up_fraction))

    return cycle


def over(schedule: Schedule, total: int) -> Callable[[int, Any], float]:
    """Makes a function for `HyperParamSetterWithFunc` that follows a schedule over `total` epochs or steps.

    Args:
        schedule: a function from progress to a value.
        total: the length of the schedule in epochs, or in steps or `env_steps` if the setter counts these.

    Raises:
        ValueError: `total` is not a positive number.

    Example:
        >>> over(polynomial(1.0), total=10)(5, None)
        0.5
    """
    if not total > 0:
        raise ValueError(f"over(total={total!r}): expected a positive number of epochs or steps.")
    return lambda finished, _old: schedule(finished / total)


def _clip(progress: float) -> float:
    return min(max(progress, 0.0), 1.0)
