"""`python -m towerpack_compat migrate`: rewrites programs that were written for Tensorpack."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ._errors import CompatError, InstallError, MigrationError

__all__ = ["add_migrate_command"]

_LEFT_TO_A_PERSON = 3

_EPILOG = """\
examples:
  python -m towerpack_compat migrate train.py
  python -m towerpack_compat migrate --write my_program/

exit status: 0 if all files run as before; 3 if a comment `# TODO(towerpack)` marks code that will not work,
or a file was skipped; 1 with an error message in one line; 2 for wrong arguments"""


def add_migrate_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the command to the parser."""
    parser = commands.add_parser(
        "migrate",
        help="rewrite a program written for Tensorpack (needs the extra [migrate])",
        description="Rewrites names with an equivalent in Towerpack, and prints the change as a diff. All\n"
        "other names stay imported from Tensorpack: `towerpack_compat.install()`, at the top of the\n"
        "file, provides them. Code that will not work is marked with a comment that names a section of\n"
        "docs/migrating-from-tensorpack.md. Pass all files of a program at once, or their folder.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="a file, or a folder of files")
    parser.add_argument("--write", action="store_true", help="rewrite the files, instead of printing a diff")
    parser.set_defaults(run=_migrate)


def _migrate(options: argparse.Namespace) -> int:
    try:
        from .migrate import Migration, migrate_files, python_files, write_migration
    except ImportError as error:
        raise InstallError(
            f"migrate needs {error.name}, which is not installed. "
            'Run `pip install "towerpack-compat[migrate]"`.',
            name=error.name,
        ) from error
    left = 0
    try:
        paths = dict.fromkeys(file for path in options.paths for file in python_files(path))
        found = migrate_files({path: path.read_bytes() for path in paths})
        for path, migration in found.items():
            if isinstance(migration, MigrationError):
                print(f"skipped: {migration}", file=sys.stderr)
                left += 1
                continue
            assert isinstance(migration, Migration)
            left += len(migration.by_hand)
            if options.write:
                write_migration(path, migration)
            else:
                print(migration.diff(str(path)), end="")
            for line, text in migration.by_hand:
                print(f"{path}:{line}: {text}", file=sys.stderr)
    except OSError as error:
        raise CompatError(str(error)) from error
    return _LEFT_TO_A_PERSON if left else 0
