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
        help="train in several processes on this machine",
        description="Starts a script in several processes, and restarts all of them when one dies. The exit "
        "status is that of the script.",
    )
    parser.add_argument("--processes", type=int, required=True, help="number of processes")
    parser.add_argument("--max-restarts", type=int, default=0, help="number of restarts after a process dies")
    parser.add_argument(
        "--min-processes",
        type=int,
        help="each restart uses one process less, down to this number; default: no process less",
    )
    parser.add_argument("--grace", type=float, default=15.0, help="seconds to exit before being killed")
    parser.add_argument("script", help="the script; TF_CONFIG describes the cluster")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of the script")
    parser.set_defaults(run=_launch)


def _launch(options: argparse.Namespace) -> int:
    command = [sys.executable, options.script, *options.arguments]
    try:
        return launch(command, options.processes, options.max_restarts, options.min_processes, options.grace)
    except LaunchError as error:
        print(error, file=sys.stderr)
        return 2
