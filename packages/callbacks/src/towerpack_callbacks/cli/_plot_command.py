"""`plot`: writes or serves the report page of runs, or draws their curves to a PNG."""

from __future__ import annotations

import argparse
import functools
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..plot._charts import THEMES, Style, write_png
from ..plot._read_runs import Run, read_runs, select_keys
from ..plot._report_page import write_report
from ..plot._serve_page import serve_report
from ._command_line import regex

__all__ = ["add_plot"]


_WRITERS = {".html": write_report, ".png": write_png}


def add_plot(commands: Any) -> None:
    """Adds the command to `ArgumentParser.add_subparsers()`."""
    parser = commands.add_parser(
        "plot",
        aliases=["report"],
        help="write or serve a page about one or more runs, or draw their curves to a PNG",
        description="Writes a page about runs that are running, killed or finished: last and best metrics, "
        "how to resume, curves, pictures, the settings that differ, and, folded, the use of time, the "
        "configuration and the log. The page is one file that works offline.",
    )
    parser.add_argument(
        "runs",
        nargs="+",
        type=Path,
        metavar="LOGDIR",
        help="log directory of a run, directory of several, or a file of JSON lines",
    )
    output = parser.add_mutually_exclusive_group()
    output.add_argument(
        "-o",
        "--output",
        type=_output,
        action="append",
        metavar="FILE",
        help=".html for a page, .png for a picture (needs the extra [plot]); may be given more than once "
        "(default: report.html in the log directory, or in the directory that several have in common)",
    )
    output.add_argument(
        "--serve",
        action="store_true",
        help="serve the page to this machine until Ctrl-C, and renew it while the files of the runs grow; "
        "runs may start later",
    )
    parser.add_argument("--port", type=_port, metavar="N", help="port of --serve (default: a free one)")
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
    parser.set_defaults(run=functools.partial(_plot, parser))


def _plot(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    style = Style(options.theme, options.log, options.smooth)
    if options.serve:
        started = functools.partial(print, "the page of the runs, until Ctrl-C:", flush=True)
        serve_report(options.runs, options.keys, style, options.port or 0, started)
        return
    if options.port is not None:
        parser.error("argument --port: expected with --serve")
    runs = read_runs(options.runs)
    keys = select_keys(runs, options.keys)
    for note in (note for run in runs for note in run.notes):
        print(f"note: {note}", file=sys.stderr)
    for path in options.output or [_beside(options.runs)]:
        _WRITERS[path.suffix.lower()](runs, keys, path, style)
        print(f"{path}: {_count(runs, keys)} of {len(runs)} {'run' if len(runs) == 1 else 'runs'}")


def _beside(paths: Sequence[Path]) -> Path:
    """Returns the path of a page beside the files of the runs."""
    folders = [path if path.is_dir() else path.parent for path in paths]
    if any(folder.is_absolute() for folder in folders):
        folders = [folder.absolute() for folder in folders]
    return Path(os.path.commonpath(folders), "report.html")


def _count(runs: Sequence[Run], keys: Sequence[str]) -> str:
    curves = {key for run in runs for key in run.curves} & set(keys)
    pictures = {key for run in runs for key in run.pictures} & set(keys)
    return f"{len(curves)} statistics{f' and {len(pictures)} series of pictures' if pictures else ''}"


def _output(text: str) -> Path:
    path = Path(text)
    if path.suffix.lower() not in _WRITERS:
        raise argparse.ArgumentTypeError(f"expected a name that ends in .html or .png, received {text!r}")
    return path


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) < 65_536):
        raise argparse.ArgumentTypeError(f"expected a port from 0 to 65535, received {text!r}")
    return int(text)


def _weight(text: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        weight = -1.0
    if not 0 <= weight < 1:
        raise argparse.ArgumentTypeError(f"expected a number of at least 0 and below 1, received {text!r}")
    return weight
