"""What all commands share: their error, aligned tables, arguments that are regular expressions."""

from __future__ import annotations

import argparse
import re
import unicodedata
from collections.abc import Sequence

__all__ = ["CommandError", "align", "regex"]


class CommandError(Exception):
    """A command cannot do its work; the message says why, in one line, and the exit code is 1."""


def regex(text: str) -> re.Pattern[str]:
    """Compiles an argument that is a regular expression.

    Raises:
        argparse.ArgumentTypeError: it is none.
    """
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no regular expression: {error}") from None


def align(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> list[str]:
    """Pads cells so that columns stand below each other.

    Args:
        rows: cells; all rows have the same number of them.
        right: numbers of the columns to align on the right.
    """
    widths = [max(map(_width, column)) for column in zip(*rows)]
    return ["  ".join(_pad(row, widths, right)).rstrip() for row in rows]


def _pad(row: Sequence[str], widths: Sequence[int], right: Sequence[int]) -> list[str]:
    spaces = [" " * (width - _width(cell)) for cell, width in zip(row, widths)]
    return [space + cell if k in right else cell + space for k, (cell, space) in enumerate(zip(row, spaces))]


def _width(cell: str) -> int:
    """Columns that a terminal takes for a text: letters of East Asia take two, combining ones none."""
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in cell)
    return len(cell) + wide - sum(unicodedata.combining(letter) > 0 for letter in cell)
