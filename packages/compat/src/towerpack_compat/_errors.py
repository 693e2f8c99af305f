"""The exceptions of this package."""

from __future__ import annotations

__all__ = ["CompatError", "InstallError", "MigrationError", "NoCounterpartError", "page"]


class CompatError(Exception):
    """The root of all errors of this package.

    ::

        CompatError
        ├── InstallError        (ImportError)          Tensorpack's names cannot be installed
        ├── MigrationError      (ValueError)           a script to migrate is not valid Python 3
        └── NoCounterpartError  (NotImplementedError)  a name or an argument is no longer supported
    """


class InstallError(CompatError, ImportError):
    """Tensorpack's names cannot be installed, or some of them need a package that is not installed."""


class MigrationError(CompatError, ValueError):
    """A script cannot be parsed, and therefore not migrated; the message names file, line and column."""


class NoCounterpartError(CompatError, NotImplementedError):
    """A name or an argument of Tensorpack is no longer supported; the message names the replacement."""


def page(section: str) -> str:
    """Returns the reference to the documentation of a difference.

    Args:
        section: a heading of the page, such as "#callbacks".
    """
    return f"docs/migrating-from-tensorpack.md{section}"
