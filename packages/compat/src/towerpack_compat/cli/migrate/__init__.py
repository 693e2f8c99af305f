"""Scripts that were written for Tensorpack, rewritten for Towerpack; needs the extra `[migrate]`."""

from ._migrate_script import Migration, migrate_file, migrate_source
from ._name_table import (
    CallChange,
    Counterpart,
    Entry,
    NameTable,
    read_calls,
    read_names,
    read_tensorflow_names,
)

__all__ = [
    "CallChange",
    "Counterpart",
    "Entry",
    "Migration",
    "NameTable",
    "migrate_file",
    "migrate_source",
    "read_calls",
    "read_names",
    "read_tensorflow_names",
]
