"""`Mixture`: assigns datapoint *n* to one of several flows, with exact shares at any time."""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from math import isfinite, lcm
from typing import Any, final

import numpy as np

from ..._argument_checks import count
from ..._errors import ArgumentError

__all__ = ["Mixture"]

_FINEST = 10_000  # denominators of shares
_LONGEST = 100_000  # datapoints after which the order of a phase repeats


@final
class Mixture:
    """Returns the flow of datapoint *n*, and the number of datapoints that flow has yielded before.

    In each phase, after any number *m* of its datapoints, each flow has yielded its share of *m*, rounded
    down or up. The *j*-th datapoint of a flow with share *w* may come from datapoint ⌊(j - 1) / w⌋ to ⌈j / w⌉
    - 1 of the phase, and that with the earliest end comes first (earliest deadline first finds such an order
    if one exists; it exists by Baruah et al., Proportionate Progress, Algorithmica 1996).

    Args:
        weights: one number per flow; or a schedule, `{first datapoint: weights}`, which begins at 0.
        flows: number of flows.

    Raises:
        ArgumentError: weights are not numbers from 0 up, one per flow and at least one above 0; or the
            schedule does not begin at 0.

    Example:
        >>> mixture = Mixture([2, 1], 2)
        >>> [mixture.at(n) for n in range(4)]
        [(0, 0), (0, 1), (1, 0), (0, 2)]
    """

    def __init__(self, weights: Sequence[Any] | Mapping[int, Sequence[Any]], flows: int) -> None:
        """Computes one period of each phase."""
        schedule = dict(weights) if isinstance(weights, Mapping) else {0: weights}
        self._starts = sorted(count("the start of a phase", start, least=0) for start in schedule)
        if not self._starts or self._starts[0]:
            raise ArgumentError(f"a schedule of weights begins at datapoint 0; received {schedule!r}")
        self.shares = [_whole(schedule[start], flows) for start in self._starts]
        self._phases = [_Phase(shares) for shares in self.shares]
        self._given = [np.zeros(flows, np.int64)]
        for phase, start, stop in zip(self._phases, self._starts, self._starts[1:]):
            self._given.append(self._given[-1] + phase.given(stop - start))

    def at(self, n: int) -> tuple[int, int]:
        """Returns the number of the flow of datapoint `n`, and its count of earlier datapoints."""
        number = bisect_right(self._starts, n) - 1
        flow, before = self._phases[number].at(n - self._starts[number])
        return flow, int(self._given[number][flow]) + before

    def used(self) -> list[int]:
        """Lists the flows that have a share in some phase."""
        used: list[int] = np.flatnonzero(np.any(self.shares, axis=0)).tolist()
        return used

    def __repr__(self) -> str:
        """Shows the shares as integers, by phase."""
        return str(dict(zip(self._starts, self.shares)))


class _Phase:
    """A periodic order with constant shares."""

    def __init__(self, shares: list[int]) -> None:
        self._shares = np.array(shares, np.int64)
        self._order = np.array(_one_period(shares), np.int32)
        self._before = np.zeros(len(self._order), np.int64)
        for flow in range(len(shares)):
            where = np.flatnonzero(self._order == flow)
            self._before[where] = np.arange(len(where))

    def at(self, n: int) -> tuple[int, int]:
        periods, rest = divmod(n, len(self._order))
        flow = int(self._order[rest])
        return flow, periods * int(self._shares[flow]) + int(self._before[rest])

    def given(self, n: int) -> np.ndarray:
        periods, rest = divmod(n, len(self._order))
        given: np.ndarray = periods * self._shares
        return given + np.bincount(self._order[:rest], minlength=len(self._shares))


def _one_period(shares: list[int]) -> list[int]:
    period = sum(shares)
    # (first moment, last moment, flow, number) of the next datapoint of each flow; then by last moment.
    waiting = [(0, -(-period // share), flow, 1) for flow, share in enumerate(shares) if share]
    heapq.heapify(waiting)
    ready: list[tuple[int, int, int]] = []
    order = []
    for moment in range(period):
        while waiting and waiting[0][0] <= moment:
            _, last, flow, number = heapq.heappop(waiting)
            heapq.heappush(ready, (last, flow, number))
        _, flow, number = heapq.heappop(ready)
        order.append(flow)
        share = shares[flow]
        first, last = number * period // share, -(-(number + 1) * period // share)
        heapq.heappush(waiting, (first, last, flow, number + 1))
    return order


def _whole(weights: Any, flows: int) -> list[int]:
    """Returns weights as integers without a common factor, exact or to one part in `_LONGEST`."""
    try:
        numbers = [float(weight) for weight in weights]
    except (TypeError, ValueError):
        numbers = []
    if len(numbers) != flows or not all(isfinite(n) and n >= 0 for n in numbers) or not sum(numbers):
        raise ArgumentError(
            f"weights are {flows} numbers from 0 up, one for each flow and one of them above 0; received "
            f"{weights!r}"
        )
    from fractions import Fraction  # here, since it loads `decimal`, which no other part needs

    total = sum(numbers)
    parts = [Fraction(number / total).limit_denominator(_FINEST) for number in numbers]
    scale = lcm(*(part.denominator for part in parts))
    if scale <= _LONGEST and sum(parts) == 1:
        return [int(part * scale) for part in parts]
    exact = [number / total * _LONGEST for number in numbers]
    whole = [int(number) for number in exact]
    by_remainder = sorted(range(flows), key=lambda flow: whole[flow] - exact[flow])
    for flow in by_remainder[: _LONGEST - sum(whole)]:
        whole[flow] += 1
    return whole
