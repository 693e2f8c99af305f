"""Prints for people: on a terminal, in a notebook, or into a file or a pipe."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Mapping
from html import escape
from typing import Any, final

from tqdm import tqdm

__all__ = ["NotebookTable", "Report", "has_colours", "is_in_notebook", "print_line"]

_CYAN, _PLAIN = "\033[36m", "\033[0m"
_MOST_ROWS = 100


def is_in_notebook() -> bool:
    """Whether IPython runs this process as the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and hasattr(ipython.get_ipython(), "kernel")


def has_colours() -> bool:
    """Whether standard error is a terminal with colours; the variable `NO_COLOR` turns them off."""
    return sys.stderr.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def print_line(text: str, title: str = "") -> None:
    """Prints lines to standard error, above a progress bar; a notebook has them as ordinary output.

    On a terminal, lines are wrapped at spaces, and never at non-breaking ones.

    Args:
        text: the lines.
        title: the beginning of the text that has a colour.
    """
    stream = sys.stdout if is_in_notebook() else sys.stderr
    if stream.isatty():
        text = "\n".join(map(_wrapped, text.split("\n")))
        if title and has_colours() and text.startswith(title):
            text = f"{_CYAN}{title}{_PLAIN}{text[len(title) :]}"
    # By tqdm, so that a progress bar is redrawn below the line.
    tqdm.write(text.replace("\xa0", " "), file=stream)


def _wrapped(line: str) -> str:
    return textwrap.fill(
        line,
        shutil.get_terminal_size().columns,
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


@final
class NotebookTable:
    """A table in the output of a notebook's cell that grows by a row; it shows the last hundred rows."""

    def __init__(self) -> None:
        """Shows nothing before the first row."""
        self._rows: list[Mapping[str, str]] = []
        self._handle: Any = None

    def add(self, row: Mapping[str, str]) -> None:
        """Adds a row, given by its columns."""
        from IPython.display import display

        self._rows = [*self._rows, row][-_MOST_ROWS:]
        shown = {"text/html": self._html(), "text/plain": "\n".join(map(_plain, self._rows))}
        if self._handle is None:
            self._handle = display(shown, raw=True, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._handle.update(shown, raw=True)

    def _html(self) -> str:
        columns = dict.fromkeys(name for row in self._rows for name in row)
        head = "".join(f"<th>{escape(name)}</th>" for name in columns)
        rows = ("".join(f"<td>{escape(row.get(name, ''))}</td>" for name in columns) for row in self._rows)
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _plain(row: Mapping[str, str]) -> str:
    return "  ".join(f"{name} {value}" for name, value in row.items())


@final
class Report(str):
    """Text that a notebook shows line by line."""

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self)}</pre>"
