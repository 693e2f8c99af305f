"""`migrate`: an older name of the `towerpack_compat` command; it starts that command."""

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
        help=f"the same as `{_NEW}`, which replaces it",
    )
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    parser.set_defaults(run=_migrate)


def _migrate(options: argparse.Namespace) -> int:
    """Runs the other command in a separate process: this package does not depend on that one."""
    if find_spec("towerpack_compat") is None:
        raise CommandError(
            f'`migrate` is now a command of another package. Run `pip install "towerpack-compat[migrate]"`, '
            f"then `{_NEW}`."
        )
    print(f"use `{_NEW}`; this name will be removed in the release after the next one", file=sys.stderr)
    command = [sys.executable, "-m", "towerpack_compat", "migrate", *options.arguments]
    return subprocess.run(command, check=False).returncode
