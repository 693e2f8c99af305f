"""`plot` and `report`: draw curves of runs, and write one page about one run."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..plot import THEMES, Run, Style, read_runs, select_keys, write_html, write_png
from ..plot._report_page import write_report
from ._command_line import regex

__all__ = ["add_plot", "add_report"]


_WRITERS = {".html": write_html, ".png": write_png}


def add_plot(commands: Any) -> None:
    """Adds the command to `ArgumentParser.add_subparsers()`."""
    parser = commands.add_parser(
        "plot",
        help="draw curves of one or more runs, to a page or a PNG",
        description="Draws one chart for each statistic, with a curve for each run, finished or not. The "
        "page also shows the pictures of SampleGrid, with a slider over the steps. The page is "
        "one file that works offline; it has values on hover, smoothing, log scale and zoom.",
    )
    parser.add_argument(
        "runs", nargs="+", metavar="LOGDIR", help="log directory of a run, or a file of JSON lines"
    )
    parser.add_argument(
        "-o",
        "--output",
        type=_output,
        action="append",
        metavar="FILE",
        help=".html for a page, .png for a picture (needs the extra [plot]); may be given more than once "
        "(default: curves.html)",
    )
    parser.add_argument(
        "--keys",
        type=regex,
        action="append",
        default=[],
        metavar="REGEX",
        help="only statistics and pictures with a name that matches; may be given more than once (default: "
        "all)",
    )
    parser.add_argument("--log", action="store_true", help="logarithmic scale")
    parser.add_argument(
        "--smooth",
        type=_weight,
        default=0.0,
        metavar="W",
        help="weight of a moving average, at least 0 and below 1 (default: 0)",
    )
    parser.add_argument(
        "--theme",
        choices=sorted(THEMES),
        default=None,
        help="colours (default: light; in a page, the preference of the reader's system)",
    )
    parser.set_defaults(run=_plot)


def _plot(options: argparse.Namespace) -> None:
    runs = read_runs(options.runs)
    keys = select_keys(runs, options.keys)
    for run in runs:
        if run.unreadable:
            print(f"note: {run.name}: {run.unreadable} lines are not statistics", file=sys.stderr)
    style = Style(options.theme, options.log, options.smooth)
    for path in options.output or [Path("curves.html")]:
        _WRITERS[path.suffix.lower()](runs, keys, path, style)
        print(f"{path}: {_count(runs, keys)} of {len(runs)} {'run' if len(runs) == 1 else 'runs'}")


def _count(runs: Sequence[Run], keys: Sequence[str]) -> str:
    curves = {key for run in runs for key in run.curves} & set(keys)
    pictures = {key for run in runs for key in run.pictures} & set(keys)
    return f"{len(curves)} statistics{f' and {len(pictures)} series of pictures' if pictures else ''}"


def _output(text: str) -> Path:
    path = Path(text)
    if path.suffix.lower() not in _WRITERS:
        raise argparse.ArgumentTypeError(f"expected a name that ends in .html or .png, received {text!r}")
    return path


def _weight(text: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        weight = -1.0
    if not 0 <= weight < 1:
        raise argparse.ArgumentTypeError(f"expected a number of at least 0 and below 1, received {text!r}")
    return weight


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
