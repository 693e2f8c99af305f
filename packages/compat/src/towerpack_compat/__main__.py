"""`python -m towerpack_compat`."""

from __future__ import annotations

import argparse
import os
import runpy
import sys
from collections.abc import Sequence
from typing import Any

from ._dry_run import set_dry_run
from ._errors import CompatError
from ._install import install
from .cli._migrate_command import add_migrate_command

__all__ = ["add_commands", "add_run_command", "main"]


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


def add_commands(commands: Any) -> None:
    """Adds all commands to `ArgumentParser.add_subparsers()`."""
    add_run_command(commands)
    add_migrate_command(commands)


def main(arguments: Sequence[str] | None = None, program: str = "python -m towerpack_compat") -> int:
    """Runs a command, and returns the exit status."""
    parser = argparse.ArgumentParser(prog=program, description="Programs of Tensorpack.")
    add_commands(parser.add_subparsers(required=True, metavar="COMMAND"))
    options = parser.parse_args(arguments)
    try:
        return int(options.run(options))
    except CompatError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
