"""`python -m towerpack_compat`."""

from __future__ import annotations

import argparse
import os
import runpy
import sys
import traceback
import types
from collections.abc import Sequence
from typing import Any

from ._dry_run import set_dry_run
from ._errors import CompatError
from ._install import install, is_of_user
from ._migrate_command import add_migrate_command

__all__ = ["add_commands", "main"]


def add_commands(commands: Any) -> None:
    """Adds all commands to `ArgumentParser.add_subparsers()`."""
    command = commands.add_parser("run", help="run a script written for Tensorpack, unchanged")
    command.add_argument(
        "--dry-run", type=int, metavar="STEPS", help="limit each training to one epoch of STEPS steps"
    )
    command.add_argument("-m", action="store_true", dest="module", help="run a module, found by its name")
    words = "the file, or after -m the module, and its arguments"
    command.add_argument("script", nargs=argparse.PARSER, help=words)
    command.set_defaults(run=_run)
    add_migrate_command(commands)


def _run(options: argparse.Namespace) -> int:
    if options.dry_run is not None:
        set_dry_run(options.dry_run)
    sys.argv, script = options.script, options.script[0]
    if options.module:
        install()
        runpy.run_module(script, run_name="__main__", alter_sys=True)
        return 0
    try:
        with open(script, "rb") as file:
            source = file.read()
    except OSError as error:
        raise CompatError(f"The script cannot be read: {error}.") from error
    # As in Python, imports search the folder of the script, not the current directory.
    sys.path[0] = os.path.dirname(os.path.realpath(script))
    install()
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    main.__file__ = os.path.abspath(script)
    exec(compile(source, main.__file__, "exec", dont_inherit=True), vars(main))
    return 0


def main(arguments: Sequence[str] | None = None, program: str = "python -m towerpack_compat") -> int:
    """Runs a command, and returns the exit status."""
    parser = argparse.ArgumentParser(prog=program, description="Programs of Tensorpack.")
    add_commands(parser.add_subparsers(required=True, metavar="COMMAND"))
    options = parser.parse_args(arguments)
    try:
        return int(options.run(options))
    except CompatError as error:
        frames = traceback.walk_tb(error.__traceback__)
        places = [(each.f_code.co_filename, line) for each, line in frames if is_of_user(each.f_globals)]
        for place, line in [each for each in places if each[0] != __file__][-1:]:
            print(f'  File "{place}", line {line}', file=sys.stderr)
        print(f"error: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
