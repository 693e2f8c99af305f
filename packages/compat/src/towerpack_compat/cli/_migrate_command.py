"""`migrate`: rewrites scripts that were written for Tensorpack."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .._errors import CompatError, InstallError

__all__ = ["add_migrate_command"]

_LEFT_TO_A_PERSON = 3

_EPILOG = """\
examples:
  python -m towerpack_compat migrate train.py
  python -m towerpack_compat migrate --write *.py

exit status: 0 where nothing is left to do by hand; 3 where a comment `# TODO(towerpack)` marks work;
1 with one line that says what could not be done; 2 for wrong arguments; 130 after Ctrl-C"""


def add_migrate_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the command to those of the program."""
    parser = commands.add_parser(
        "migrate",
        help="rewrite scripts that were written for Tensorpack (needs the extra [migrate])",
        description="Rewrites imports, names, arguments and old spellings, and prints the change as a diff.\n"
        "What needs a hand is marked with a comment, which names a section of the page\n"
        "docs/migrating-from-tensorpack.md. A script that does not import Tensorpack stays as it is.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("scripts", nargs="+", type=Path, metavar="SCRIPT", help="a file of Python")
    parser.add_argument("--write", action="store_true", help="rewrite the files, instead of printing a diff")
    parser.set_defaults(run=_migrate)


def _migrate(options: argparse.Namespace) -> int:
    try:
        from .migrate import migrate_file
    except ImportError as error:
        raise InstallError(
            f"migrate needs {error.name}, which is not installed. "
            'Run `pip install "towerpack-compat[migrate]"`.',
            name=error.name,
        ) from error
    left = 0
    for path in options.scripts:
        try:
            migration = migrate_file(path, options.write)
        except OSError as error:
            raise CompatError(str(error)) from error
        left += len(migration.by_hand)
        if not options.write:
            print(migration.diff(str(path)), end="")
        for line, text in migration.by_hand:
            print(f"{path}:{line}: {text}", file=sys.stderr)
    return _LEFT_TO_A_PERSON if left else 0
