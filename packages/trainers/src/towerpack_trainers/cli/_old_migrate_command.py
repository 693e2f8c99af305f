"""`migrate`: an older name of the command of `towerpack_compat`, which it starts."""

from __future__ import annotations

import argparse
import subprocess
import sys
from importlib.util import find_spec
from typing import Any

from ._model_arguments import CommandError

__all__ = ["add_migrate"]

_NEW = "python -m towerpack_compat migrate"


def add_migrate(commands: Any) -> None:
    """Adds the command to `ArgumentParser.add_subparsers()`."""
    parser = commands.add_parser(
        "migrate",
        add_help=False,
        prefix_chars="\0",  # all arguments belong to the other command, options included
        help=f"the same as `{_NEW}`, which takes its place",
    )
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    parser.set_defaults(run=_migrate)


def _migrate(options: argparse.Namespace) -> int:
    """Runs the other command in a process of its own: this package does not know that one."""
    if find_spec("towerpack_compat") is None:
        raise CommandError(
            f'`migrate` is a command of another package now. Run `pip install "towerpack-compat[migrate]"`, '
            f"and then `{_NEW}`."
        )
    print(f"use `{_NEW}`; this name goes with the release after the next one", file=sys.stderr)
    command = [sys.executable, "-m", "towerpack_compat", "migrate", *options.arguments]
    return subprocess.run(command, check=False).returncode
