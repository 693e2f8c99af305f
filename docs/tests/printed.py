"""Compares the printed text of a block with the output that the page shows.

An output block holds the lines that a reader will see. The options of the block, which readers do not see,
allow differences: `within` for numbers with a decimal point, `vary` for values of some kinds, `excerpt` for
lines that the page leaves out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import unified_diff

__all__ = ["EXACTLY", "KINDS", "UNCOMPARED", "Allowed", "difference"]

_NUMBER = re.compile(r"([-+]?(?:\d[\d,]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)")

# The values that differ from run to run or between machines, by their names in `vary`.
KINDS = {
    "date": re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"),
    "size": re.compile(rf"{_NUMBER.pattern} (?:B|kB|MB|GB)\b"),
    "time": re.compile(rf"(?:\d+:)?\d+:\d\d(?:\.\d+)?|{_NUMBER.pattern}\s?(?:ns|us|ms|s|min|h)\b"),
    "path": re.compile(r"(?:[^\s'\"`,;:()]*/[^\s'\"`,;:()]+|[\w.-]+\.py\b)(?::\d+)?"),
    "number": _NUMBER,
}

# Lines that are never compared: how busy the machine was, and warnings that TensorFlow gives once.
UNCOMPARED = re.compile(
    r"^(?:epoch \d+: (?:(?:the model|the data) is the bottleneck|data and model are about even).*"
    r"|WARNING:tensorflow:.*(?:\nInstructions for updating:\n.*)?"
    r"|WARNING: All log messages before absl.*"
    r"|[EWI]\d{4} [\d:.]+ +\d+ .*"
    r"|\d{4}-\d\d-\d\d [\d:.]+: [EW] external/.*)(?:\n|$)",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Allowed:
    """The allowed differences of an output block.

    Attributes:
        within: the tolerance of each number with a decimal point, in order; the last holds for all others.
        vary: the kinds of values that may differ.
        excerpt: whether lines may be missing from the page.
    """

    within: tuple[float, ...] = (0.0,)
    vary: frozenset[str] = frozenset()
    excerpt: bool = False

    @classmethod
    def read(cls, options: frozenset[str]) -> Allowed:
        """Reads the options of an output block; raises ValueError for an unknown one."""
        within, vary = cls.within, cls.vary
        for option in options - {"output", "excerpt"}:
            name, _, value = option.partition("=")
            if name == "within":
                within = tuple(map(float, value.split(",")))
            elif name == "vary" and set(value.split(",")) <= set(KINDS):
                vary = frozenset(value.split(","))
            else:
                raise ValueError(f"unknown after ```text output: {option}")
        return cls(within, vary, "excerpt" in options)


EXACTLY = Allowed()


def difference(written: str, printed: str, page: str, line: int, allowed: Allowed = EXACTLY) -> str | None:
    """Returns the difference between a printed text and an output block, or `None`.

    Args:
        written: the output block.
        printed: the printed text.
        page: the name of the page.
        line: the line of the page at which the output block begins.
        allowed: the allowed differences.
    """
    expected, received = _lines(UNCOMPARED.sub("", written)), _lines(UNCOMPARED.sub("", printed))
    tolerances = _tolerances(expected, allowed.within)
    matched: dict[int, int] = {}
    place = 0
    for at, shown in enumerate(expected):
        reachable = range(place, len(received) if allowed.excerpt else min(place + 1, len(received)))
        found = next((to for to in reachable if _same(shown, received[to], tolerances[at], allowed)), None)
        if found is None:
            break
        matched[at], place = found, found + 1
    else:
        if allowed.excerpt or place == len(received):
            return None
    head = f"{page}:{line + len(matched)} is not what the block prints"
    agreeing = [received[matched[at]] if at in matched else shown for at, shown in enumerate(expected)]
    names = (f"{page}:{line}", "printed")
    return "\n".join([head, *unified_diff(agreeing, received, *names, lineterm="")])


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip("\n").splitlines()]


def _tolerances(lines: list[str], within: tuple[float, ...]) -> list[list[float]]:
    """Returns the tolerance of each number with a decimal point, line by line."""
    given = list(within)
    tolerances = []
    for line in lines:
        numbers = [number for number in _NUMBER.findall(line) if "." in number]
        tolerances.append([given.pop(0) if len(given) > 1 else given[0] for _ in numbers])
    return tolerances


def _same(shown: str, printed: str, tolerances: list[float], allowed: Allowed) -> bool:
    for kind in (kind for kind in KINDS if kind in allowed.vary):
        shown, printed = (KINDS[kind].sub(f"<{kind}>", line) for line in (shown, printed))
    if allowed.vary:  # columns are as wide as their values
        shown, printed = (re.sub(r"\s+", " ", line) for line in (shown, printed))
    if not any(tolerances):
        return shown == printed
    texts, others = _NUMBER.split(shown), _NUMBER.split(printed)
    if texts[::2] != others[::2]:
        return False
    left = iter(tolerances)
    pairs = zip(texts[1::2], others[1::2])
    return all(abs(_value(a) - _value(b)) <= (next(left) if "." in a else 0) for a, b in pairs)


def _value(text: str) -> float:
    return float(text.replace(",", ""))
