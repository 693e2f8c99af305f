"""Shared code of all commands: their error, aligned tables, regular expressions as arguments."""

from __future__ import annotations

import argparse
import re
import unicodedata
from collections.abc import Sequence

__all__ = ["CheckpointCommandError", "align", "regex"]


class CheckpointCommandError(Exception):
    """A command failed; the message gives the reason in one line, and the exit code is 1."""


def regex(text: str) -> re.Pattern[str]:
    """Compiles a regular expression given as an argument.

    Raises:
        argparse.ArgumentTypeError: the text is not a regular expression.
    """
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a regular expression: {error}") from None


def align(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> list[str]:
    """Pads cells so that columns are aligned.

    Args:
        rows: the cells; all rows have the same number of cells.
        right: numbers of the columns to align on the right.
    """
    widths = [max(map(_width, column)) for column in zip(*rows)]
    return ["  ".join(_pad(row, widths, right)).rstrip() for row in rows]


def _pad(row: Sequence[str], widths: Sequence[int], right: Sequence[int]) -> list[str]:
    spaces = [" " * (width - _width(cell)) for cell, width in zip(row, widths)]
    return [space + cell if k in right else cell + space for k, (cell, space) in enumerate(zip(row, spaces))]


def _width(cell: str) -> int:
    """Terminal columns of a text: East Asian characters take two, combining characters none."""
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in cell)
    return len(cell) + wide - sum(unicodedata.combining(letter) > 0 for letter in cell)
