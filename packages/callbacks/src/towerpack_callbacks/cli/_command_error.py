"""What ends a command with one line and exit code 1."""

from __future__ import annotations

__all__ = ["CommandError"]


class CommandError(Exception):
    """A command cannot do what it was asked; the message says why, in one line."""
