"""`python -m towerpack_compat`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from ._errors import CompatError
from .cli._migrate_command import add_migrate_command
from .cli._run_command import add_run_command

__all__ = ["add_commands", "main"]


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
