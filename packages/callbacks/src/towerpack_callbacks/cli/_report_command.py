"""`report`: one page about one run."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from ..plot import THEMES, Appearance
from ..plot.report import write_report

__all__ = ["add_report"]


def add_report(commands: Any) -> None:
    """Adds the command to `ArgumentParser.add_subparsers()`."""
    parser = commands.add_parser(
        "report",
        help="write one page about one run: curves, samples, where its time went, how it goes on",
        description="Writes a page about a run that goes on, was killed, or is over: its curves and images, "
        "where its time went over all restarts, what it is made of and runs on, the position of its data, "
        "and how to resume it. The page is one file that needs no network.",
    )
    parser.add_argument("log_dir", type=Path, metavar="LOGDIR", help="log directory of the run")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path("report.html"),
        metavar="FILE",
        help="the page to write (default: report.html)",
    )
    parser.add_argument(
        "--theme", choices=sorted(THEMES), default=None, help="colours (default: what the reader prefers)"
    )
    parser.set_defaults(run=_report)


def _report(options: argparse.Namespace) -> None:
    for note in write_report(options.log_dir, options.output, Appearance(options.theme)):
        print(f"note: {note}", file=sys.stderr)
    print(f"{options.output}: report of {options.log_dir}")
