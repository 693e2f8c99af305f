"""Checks of arguments that flows share.

They are functions, not validators of attrs: importing attrs would take `import towerpack_dataflow` beyond its
limit, a little more than the time of `import numpy`, which `benchmarks/import_time.py` measures.
"""

from __future__ import annotations

import operator
from typing import Any

from ._errors import ArgumentError

__all__ = ["count", "one_of", "seconds"]


def count(name: str, value: Any, least: int = 1, instead: str = "") -> int:
    """Checks that `value` is an integer of at least `least`, NumPy's included; returns it as an `int`.

    Args:
        name: of the argument, for the message.
        value: the argument.
        least: the smallest number that makes sense.
        instead: other accepted values, for the message.

    Raises:
        ArgumentError: `value` is no integer, or is below `least`.
    """
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if number < least or isinstance(value, bool):
        raise ArgumentError(f"{name} is an integer from {least} up{instead}; received {value!r}")
    return number


def seconds(name: str, value: Any) -> float:
    """Checks that `value` is a number of seconds above 0, infinity included; returns it as a `float`.

    Raises:
        ArgumentError: `value` is something else.
    """
    if isinstance(value, (bool, str, bytes)) or not hasattr(value, "__float__") or not float(value) > 0:
        raise ArgumentError(
            f"{name} is a number of seconds above 0, or None for no limit; received {value!r}"
        )
    return float(value)


def one_of(name: str, value: Any, allowed: tuple[str, ...]) -> str:
    """Checks that `value` is one of a few words, and returns it.

    Raises:
        ArgumentError: `value` is none of them.
    """
    if value not in allowed:
        raise ArgumentError(f"{name} is {' or '.join(map(repr, allowed))}; received {value!r}")
    return str(value)
