"""Compares what a block of a page prints with what the page says that it prints.

An output block holds the lines themselves. What differs from run to run is written as one of `PATTERNS`, a
number that differs a little with its tolerance (`cost 0.31±0.05`), any text within a line as `…`, and any
number of lines as a line with nothing but `…`.
"""

from __future__ import annotations

import re
from difflib import unified_diff

__all__ = ["PATTERNS", "UNCOMPARED", "agrees", "difference"]

_NUMBER = r"[-+]?(?:\d[\d,]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"

# All that may stand for something else in an output block, beside tolerances.
PATTERNS = {
    "<time>": rf"(?:\d+:)?\d+:\d\d(?:\.\d+)?|{_NUMBER}\s?(?:ns|us|ms|s|min|h)\b",
    "<rate>": _NUMBER,
    "<date>": r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d",
    "<line>": r"\d+",
    "<path>": r"[^\s'\"`,;:()]+",
    "…": r".*?",
}

# What is compared with nothing, whether a page shows it or not: what a machine was slow at, and warnings that
# TensorFlow gives once in a process.
UNCOMPARED = re.compile(
    r"^(?:epoch \d+: (?:(?:the model|the data) is the bottleneck|data and model are about even).*"
    r"|WARNING:tensorflow:.*(?:\nInstructions for updating:\n.*)?"
    r"|WARNING: All log messages before absl.*"
    r"|[EWI]\d{4} [\d:.]+ +\d+ .*"
    r"|\d{4}-\d\d-\d\d [\d:.]+: [EW] external/.*)(?:\n|$)",
    re.MULTILINE,
)

_ANY_LINES = "…"
_SPECIAL = re.compile(rf"({_NUMBER})\s?±\s?({_NUMBER})|({'|'.join(map(re.escape, PATTERNS))})")


def agrees(written: str, printed: str) -> bool:
    """Returns whether a text that was printed is what an output block says."""
    return _agreement(_lines(written), _compared(printed)) is None


def difference(written: str, printed: str, page: str, line: int) -> str | None:
    """Returns how a printed text differs from an output block, or `None` where it does not.

    Args:
        written: the output block.
        printed: what was printed.
        page: the name of the page.
        line: the line of the page that the output block begins at.
    """
    expected, received = _lines(written), _compared(printed)
    at = _agreement(expected, received)
    if at is None:
        return None
    head = f"{page}:{line + at} is not what the block prints"
    names = (f"{page}:{line}", "printed")
    lines = unified_diff(_filled_in(expected, received), received, *names, lineterm="")
    return "\n".join([head, *lines])


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip("\n").splitlines()]


def _compared(printed: str) -> list[str]:
    return _lines(UNCOMPARED.sub("", printed))


def _agreement(expected: list[str], received: list[str]) -> int | None:
    """Returns the place of the first line that is not there however the lines `…` are read, or `None`."""
    places, at = {0}, 0  # how many printed lines the expected ones so far may stand for
    for at, line in enumerate(expected):
        if UNCOMPARED.fullmatch(line):
            continue
        if line.strip() == _ANY_LINES:
            reached = set(range(min(places), len(received) + 1))
        else:
            reached = {
                place + 1 for place in places if place < len(received) and _same(line, received[place])
            }
        if not reached:
            return at
        places = reached
    return None if len(received) in places else at


def _same(line: str, printed: str) -> bool:
    """Returns whether a printed line is what a line of an output block says."""
    parts, tolerances, end = [], [], 0
    for found in _SPECIAL.finditer(line):
        parts.append(re.escape(line[end : found.start()]))
        number, tolerance, name = found.groups()
        parts.append(f"({_NUMBER})" if name is None else f"(?:{PATTERNS[name]})")
        if name is None:
            tolerances.append((_value(number), _value(tolerance)))
        end = found.end()
    parts.append(re.escape(line[end:]))
    match = re.fullmatch("".join(parts), printed)
    if match is None:
        return False
    return all(
        abs(_value(text) - number) <= tolerance
        for text, (number, tolerance) in zip(match.groups(), tolerances)
    )


def _value(text: str) -> float:
    return float(text.replace(",", ""))


def _filled_in(expected: list[str], received: list[str]) -> list[str]:
    """Returns the expected lines, and in place of those that agree what was printed."""
    shown: list[str] = []
    place, any_lines = 0, False
    for line in (line for line in expected if not UNCOMPARED.fullmatch(line)):
        if line.strip() == _ANY_LINES:
            any_lines = True
            continue
        last = len(received) if any_lines else place + 1
        agreeing = (at for at in range(place, min(last, len(received))) if _same(line, received[at]))
        at = next(agreeing, None)
        if at is None:
            shown.append(line)
            place += not any_lines
            continue
        shown += received[place : at + 1]
        place, any_lines = at + 1, False
    return shown + (received[place:] if any_lines else [])
