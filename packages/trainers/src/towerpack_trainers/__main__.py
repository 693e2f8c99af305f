"""The command line of trainers: `python -m towerpack_trainers launch`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from .distributed import LaunchError, launch

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one tool, and returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m towerpack_trainers", description=__doc__)
    tools = parser.add_subparsers(title="tools", required=True)
    _add_launch(tools.add_parser("launch", help="train in several processes of this machine"))
    options = parser.parse_args(arguments)
    code: int = options.run(options)
    return code


def _add_launch(parser: argparse.ArgumentParser) -> None:
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


if __name__ == "__main__":
    sys.exit(main())
