"""`python -m towerpack_compat run`: runs a program written for Tensorpack, unchanged."""

from __future__ import annotations

import argparse
import os
import runpy
import sys

from .._dry_run import set_dry_run
from .._install import install

__all__ = ["add_run_command"]


def add_run_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the command to the parser."""
    command = commands.add_parser("run", help="run a script written for Tensorpack, unchanged")
    command.add_argument(
        "--dry-run", type=int, metavar="STEPS", help="limit each training to one epoch of STEPS steps"
    )
    command.add_argument("script", help="the file")
    command.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    command.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    if options.dry_run is not None:
        set_dry_run(options.dry_run)
    install()
    sys.argv = [options.script, *options.arguments]
    # As in Python, imports search the folder of the script, not the current directory.
    sys.path[0] = os.path.dirname(os.path.realpath(options.script))
    runpy.run_path(options.script, run_name="__main__")
    return 0
