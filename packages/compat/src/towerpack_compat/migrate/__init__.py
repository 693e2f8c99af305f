"""Rewrites scripts written for Tensorpack to Towerpack; needs the extra `[migrate]`."""

from ._migrate_script import Migration, migrate_source
from ._name_table import read_calls, read_names
from ._program import migrate_files, python_files, write_migration

__all__ = [
    "Migration",
    "migrate_files",
    "migrate_source",
    "python_files",
    "read_calls",
    "read_names",
    "write_migration",
]
