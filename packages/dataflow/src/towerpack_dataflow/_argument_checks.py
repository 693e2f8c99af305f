"""Checks that several flows make of their arguments."""

from __future__ import annotations

import operator
from typing import Any

from ._errors import ArgumentError


def count(name: str, value: Any, least: int = 1, instead: str = "") -> int:
    """`value` as an `int`, NumPy's integers included.

    Args:
        name: the argument, for the message.
        value: what the user gave.
        least: the smallest number that makes sense.
        instead: what else would be accepted, for the message.

    Raises:
        ArgumentError: if it is no integer, or below `least`.
    """
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if number < least or isinstance(value, bool):
        raise ArgumentError(f"{name} is an integer from {least} up{instead}; got {value!r}")
    return number


def one_of(name: str, value: Any, allowed: tuple[str, ...]) -> str:
    """`value`, which must be one of a few words.

    Raises:
        ArgumentError: if it is none of them.
    """
    if value not in allowed:
        raise ArgumentError(f"{name} is {' or '.join(map(repr, allowed))}; got {value!r}")
    return str(value)
