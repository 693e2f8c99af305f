"""Thins curves to fewer points and keeps means and ranges, so that the drawing looks the same."""

from __future__ import annotations

from typing import final

import attrs
import numpy as np

from ._read_runs import Curve

__all__ = ["ThinCurve", "smooth", "thin"]

_LARGEST = 1e300


@final
@attrs.frozen(eq=False)  # arrays do not compare to one truth value
class ThinCurve:
    """A curve prepared for drawing.

    Attributes:
        steps: int64 of shape [n], increasing if points were merged.
        values: float64 of shape [n], the mean of the finite values in each interval; NaN without any.
        low, high: float64 of shape [n], the minimum and maximum per interval; None if each value is drawn
            itself.
        odd: pairs (step, "NaN", "Infinity" or "-Infinity"): values that a line cannot show, once per
            interval.
    """

    steps: np.ndarray
    values: np.ndarray
    low: np.ndarray | None
    high: np.ndarray | None
    odd: list[tuple[int, str]]


def thin(curve: Curve, limit: int = 1000) -> ThinCurve:
    """Merges neighbouring points to at most `limit`; a shorter curve is unchanged.

    Values beyond ±1e300 count as infinite, since drawing them would overflow.
    """
    beyond = np.abs(curve.values) > _LARGEST
    curve = Curve(curve.steps, np.where(beyond, np.copysign(np.inf, curve.values), curve.values))
    finite = np.isfinite(curve.values)
    if len(curve.steps) <= limit:
        ends = np.arange(1, len(curve.steps) + 1)
        return ThinCurve(curve.steps, np.where(finite, curve.values, np.nan), None, None, _odd(curve, ends))
    ends = _stretches(curve.steps, limit)
    starts = np.concatenate([[0], ends[:-1]])
    count = np.add.reduceat(finite.astype(np.int64), starts)
    total = np.add.reduceat(np.where(finite, curve.values, 0.0), starts)
    low = np.minimum.reduceat(np.where(finite, curve.values, np.inf), starts)
    high = np.maximum.reduceat(np.where(finite, curve.values, -np.inf), starts)
    return ThinCurve(
        steps=curve.steps[ends - 1],
        values=np.where(count, total / np.maximum(count, 1), np.nan),
        low=np.where(count, low, np.nan),
        high=np.where(count, high, np.nan),
        odd=_odd(curve, ends),
    )


def _stretches(steps: np.ndarray, limit: int) -> np.ndarray:
    """Returns the ends of at most `limit` intervals of equal ranges of steps; empty ones are left out."""
    span = steps[-1] - steps[0] + 1
    number = np.minimum(((steps - steps[0]) * (limit / span)).astype(np.int64), limit - 1)
    ends: np.ndarray = np.flatnonzero(np.diff(number, append=limit)) + 1
    return ends


def _odd(curve: Curve, ends: np.ndarray) -> list[tuple[int, str]]:
    kinds = {
        "NaN": np.isnan(curve.values),
        "Infinity": curve.values == np.inf,
        "-Infinity": curve.values == -np.inf,
    }
    found = []
    for kind, is_kind in kinds.items():
        positions = np.flatnonzero(is_kind)
        stretches = np.searchsorted(ends, positions, side="right")
        _, first = np.unique(stretches, return_index=True)
        found += [(int(curve.steps[position]), kind) for position in positions[first]]
    return sorted(found)


def smooth(values: np.ndarray, weight: float) -> np.ndarray:
    """Returns moving averages with the weight `weight`, in [0, 1), for earlier values, without initial bias.

    NaN values stay NaN and do not affect others.
    """
    smoothed = np.full_like(values, np.nan)
    average, share = 0.0, 0.0
    for position in np.flatnonzero(np.isfinite(values)):
        average = average * weight + (1 - weight) * values[position]
        share = share * weight + (1 - weight)
        smoothed[position] = average / share
    return smoothed
