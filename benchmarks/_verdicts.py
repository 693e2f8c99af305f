"""Targets of a benchmark, and the exit status if one is missed."""

from __future__ import annotations

import sys
from statistics import median

import _rounds

MET, CROSSES, MISSED = "met", "met, the range crosses the limit", "MISSED"


def judge(values: list[float], limit: float, at_most: bool) -> str:
    """Describes the median relative to a limit, and whether all rounds agree."""
    kept = [value <= limit if at_most else value >= limit for value in values]
    if not (median(values) <= limit if at_most else median(values) >= limit):
        return MISSED
    return MET if all(kept) else CROSSES


class Verdicts:
    """Prints figures with their targets, and records missed targets."""

    def __init__(self) -> None:
        self._missed: list[str] = []

    def at_least(self, what: str, values: list[float], limit: float, form: str = ".2f") -> None:
        """Prints a figure that should not be below a limit."""
        self._print(what, values, form, f"at least {limit:g}: {judge(values, limit, at_most=False)}")

    def at_most(self, what: str, values: list[float], limit: float, form: str = ".2f") -> None:
        """Prints a figure that should not be above a limit."""
        self._print(what, values, form, f"at most {limit:g}: {judge(values, limit, at_most=True)}")

    def untargeted(self, what: str, values: list[float], form: str = ".2f") -> None:
        """Prints a further figure."""
        self._print(what, values, form, "no target")

    def leave(self) -> None:
        """Ends the process: with status 1 if a target was missed, unless the run was a short one for show."""
        if self._missed and not _rounds.SMOKE:
            sys.exit(f"{len(self._missed)} missed: " + "; ".join(self._missed))

    def _print(self, what: str, values: list[float], form: str, verdict: str) -> None:
        if verdict.endswith(MISSED):
            self._missed.append(what)
        print(f"  -> {what}: {_rounds.summary(values, form)}; {verdict}", flush=True)
