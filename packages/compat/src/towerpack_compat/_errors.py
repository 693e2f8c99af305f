"""The errors of this package."""

from __future__ import annotations

__all__ = ["CompatError", "InstallError", "MigrationError", "NoCounterpartError", "page"]


class CompatError(Exception):
    """The root of all errors of this package.

    ::

        CompatError
        ├── InstallError        (ImportError)          Tensorpack's names cannot be put in place
        ├── MigrationError      (ValueError)           a script to migrate is no script of Python 3
        └── NoCounterpartError  (NotImplementedError)  a name or an argument that does not work any more
    """


class InstallError(CompatError, ImportError):
    """Tensorpack's names cannot be put in place, or a part of them needs a package that is not installed."""


class MigrationError(CompatError, ValueError):
    """A script cannot be migrated, as it does not parse; the message names file, line and column."""


class NoCounterpartError(CompatError, NotImplementedError):
    """A name or an argument of Tensorpack that does not work any more; the message names the replacement."""


def page(section: str) -> str:
    """Returns where to read about a difference.

    Args:
        section: a heading of the page, such as "#callbacks".
    """
    return f"docs/migrating-from-tensorpack.md{section}"
