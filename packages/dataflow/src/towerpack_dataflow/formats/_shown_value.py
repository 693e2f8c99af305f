"""Values in messages, shortened."""

from __future__ import annotations

from typing import Any

__all__ = ["shown"]


def shown(value: Any, most: int = 60) -> str:
    """Returns a value as text of at most `most` characters, or its type if that fails.

    Example:
        >>> shown([1, 2]), shown(10**5000)
        ('[1, 2]', 'a value of the type int')
    """
    try:
        return repr(value)[:most]
    except Exception:  # a number with too many digits, lists nested too deeply, a user's class
        return f"a value of the type {type(value).__name__}"
