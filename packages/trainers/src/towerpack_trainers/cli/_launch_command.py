"""`launch`: trains in several processes."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from ..distributed import LaunchError, launch

__all__ = ["add_launch"]


def add_launch(commands: Any) -> None:
    """Adds the command to `ArgumentParser.add_subparsers()`."""
    parser = commands.add_parser(
        "launch",
        help="train in several processes of this machine",
        description="Starts a script in several processes, and all again when one dies. The exit status is "
        "that of the script.",
    )
    parser.add_argument("--processes", type=int, required=True, help="how many processes train together")
    parser.add_argument("--max-restarts", type=int, default=0, help="restarts of all when one dies")
    parser.add_argument(
        "--min-processes",
        type=int,
        help="each restart has one process less, but this many at least; default: all of them",
    )
    parser.add_argument("--grace", type=float, default=15.0, help="seconds to end before being killed")
    parser.add_argument("script", help="the script; it finds the cluster in TF_CONFIG")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of the script")
    parser.set_defaults(run=_launch)


def _launch(options: argparse.Namespace) -> int:
    command = [sys.executable, options.script, *options.arguments]
    try:
        return launch(command, options.processes, options.max_restarts, options.min_processes, options.grace)
    except LaunchError as error:
        print(error, file=sys.stderr)
        return 2
