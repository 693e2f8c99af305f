"""Checks before the training that every statistic is produced before it is consumed."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from .._errors import StatisticError
from ..callback import Callback
from ..monitors import Monitor

__all__ = ["announce_console_statistics", "check_statistics"]


def check_statistics(callbacks: Sequence[Callback]) -> None:
    """Checks that each statistic a callback consumes is produced by a callback before it.

    A statistic put while a step's fetches are received is available to every trigger.

    Raises:
        StatisticError: no callback, or only a later one, produces a consumed statistic.
    """
    available = {name for cb in callbacks for name in cb.produces_in_run()}
    for position, consumer in enumerate(callbacks):
        for name in consumer.consumes():
            if name not in available:
                raise StatisticError(_describe_missing(name, consumer, callbacks[position + 1 :], available))
        available.update(consumer.produces())


def announce_console_statistics(callbacks: Sequence[Callback]) -> None:
    """Passes the headline statistics of all callbacks to the monitors: those of the steps first."""
    names = [name for callback in callbacks for name in callback.headlines()]
    of_steps = {name for callback in callbacks for name in callback.produces_in_run()}
    headlines = sorted(names, key=lambda name: name not in of_steps)
    for monitor in callbacks:
        if isinstance(monitor, Monitor):
            monitor.expect(headlines)


def _describe_missing(name: str, consumer: Callback, later: Sequence[Callback], available: set[str]) -> str:
    for producer in later:
        if name in producer.produces():
            return (
                f"{consumer} reads the statistic {name!r}, but {producer}, which produces it, comes later. "
                f"Callbacks run in list order; this order works: [{producer}, {consumer}]."
            )
    known = sorted(available.union(*(cb.produces() for cb in later))) if later else sorted(available)
    close = difflib.get_close_matches(name, known, n=3)
    hint = f" Did you mean {' or '.join(map(repr, close))}?" if close else ""
    return (
        f"{consumer} reads the statistic {name!r}, which no callback produces.{hint} "
        f"Available statistics: {', '.join(known) or 'none'}. "
        "If your callback puts it, return its name from produces()."
    )
