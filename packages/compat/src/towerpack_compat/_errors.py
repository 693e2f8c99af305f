"""The errors of this package."""

from __future__ import annotations

__all__ = ["CompatError", "InstallError", "NoCounterpartError", "page"]


class CompatError(Exception):
    """The root of all errors of this package.

    ::

        CompatError
        ├── InstallError        (ImportError)          Tensorpack's names cannot be put in place
        └── NoCounterpartError  (NotImplementedError)  a name or an argument that does not work any more
    """


class InstallError(CompatError, ImportError):
    """Tensorpack's names cannot be put in place, or a part of them needs a package that is not installed."""


class NoCounterpartError(CompatError, NotImplementedError):
    """A name or an argument of Tensorpack that does not work any more; the message names the replacement."""


def page(section: str) -> str:
    """Returns where to read about a difference.

    Args:
        section: a heading of the page, such as "#callbacks".
    """
    return f"docs/migrating-from-tensorpack.md{section}"
