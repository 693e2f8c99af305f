"""`report`: one page about one run."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from ..plot import THEMES, Style
from ..plot.report import write_report

__all__ = ["add_report"]


def add_report(commands: Any) -> None:
    """Adds the command to `ArgumentParser.add_subparsers()`."""
    parser = commands.add_parser(
        "report",
        help="write one page about one run: curves, samples, time, configuration and how to resume",
        description="Writes a page about a running, killed or finished run: its curves and images, its use "
        "of time over all restarts, its configuration and hardware, the position of its data, "
        "and how to resume it. The page is one file that works offline.",
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
        "--theme", choices=sorted(THEMES), default=None, help="colours (default: the reader's preference)"
    )
    parser.set_defaults(run=_report)


def _report(options: argparse.Namespace) -> None:
    for note in write_report(options.log_dir, options.output, Style(options.theme)):
        print(f"note: {note}", file=sys.stderr)
    print(f"{options.output}: report of {options.log_dir}")
