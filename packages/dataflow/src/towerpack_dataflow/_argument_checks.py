"""Checks of arguments that flows share, and old names of exports.

They are functions, not validators of attrs: importing attrs would take `import towerpack_dataflow` beyond its
limit, a little more than the time of `import numpy`, which `benchmarks/import_time.py` measures.
"""

from __future__ import annotations

import operator
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ._errors import ArgumentError, ArgumentTypeError

__all__ = ["count", "flag", "function", "one_of", "position", "renamed_exports", "seconds"]


def count(name: str, value: Any, least: int = 1, instead: str = "", most: int | None = sys.maxsize) -> int:
    """Checks that `value` is an integer of at least `least`, NumPy integers included; returns it as an `int`.

    Args:
        name: of the argument, for the message.
        value: the argument.
        least: the smallest number that makes sense.
        instead: further accepted values, for the message.
        most: the largest number that makes sense; by default, what `len()` can return.

    Raises:
        ArgumentError: `value` is not an integer, is below `least`, or is above `most`.
    """
    number = _as_index(value)
    if number is None or number < least:
        raise ArgumentError(f"{name} is an integer from {least} up{instead}; received {value!r}")
    if most is not None and number > most:
        raise ArgumentError(f"{name} is an integer up to {most}{instead}; received {value!r}")
    return number


def seconds(name: str, value: Any) -> float:
    """Checks that `value` is a number of seconds above 0, infinity included; returns it as a `float`.

    Raises:
        ArgumentError: `value` is something else.
    """
    try:
        number = float(value) if hasattr(value, "__float__") and not isinstance(value, bool) else 0.0
    except TypeError:  # an array with several numbers
        number = 0.0
    if not number > 0:
        raise ArgumentError(
            f"{name} is a number of seconds above 0, or None for no limit; received {value!r}"
        )
    return number


def function(expected: str, value: Any, optional: bool = False) -> Any:
    """Checks that `value` can be called; returns it.

    Args:
        expected: the begin of the message, such as "collate is a function of a list".
        value: the argument.
        optional: whether `value` may be None.

    Raises:
        ArgumentTypeError: `value` cannot be called.
    """
    if not callable(value) and not (optional and value is None):
        raise ArgumentTypeError(f"{expected}; received {type(value).__name__}")
    return value


def one_of(name: str, value: Any, allowed: tuple[str, ...]) -> str:
    """Checks that `value` is one of a few words, and returns it.

    Raises:
        ArgumentError: `value` is not one of them.
    """
    if not isinstance(value, str) or value not in allowed:
        raise ArgumentError(f"{name} is {' or '.join(map(repr, allowed))}; received {value!r}")
    return str(value)


def position(name: str, value: Any) -> int:
    """Checks that `value` is an integer; it may lie outside the range of valid positions.

    Raises:
        ArgumentTypeError: `value` is not an integer.
    """
    number = _as_index(value)
    if number is None:
        raise ArgumentTypeError(f"{name} is an integer; received {value!r}")
    return number


def flag(name: str, value: Any) -> bool:
    """Checks that `value` is a boolean, NumPy booleans included; returns it as a `bool`.

    Raises:
        ArgumentTypeError: `value` is something else, a string such as `"no"` included.
    """
    if not isinstance(value, (bool, np.bool_)):
        raise ArgumentTypeError(f"{name} is True or False; received {value!r}")
    return bool(value)


def _as_index(value: Any) -> int | None:
    """Returns an integer as an `int`; None for anything else, a boolean included."""
    if isinstance(value, (bool, np.bool_)):  # an index to older releases of NumPy, with a warning
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def renamed_exports(module: str, new_names: Mapping[str, str]) -> Callable[[str], Any]:
    """Returns a module's `__getattr__` for the old names of its exports.

    Args:
        module: the name of the module.
        new_names: the new name of each old one.
    """

    def look_up(name: str) -> Any:
        if name not in new_names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        warnings.warn(
            f"{module}.{name} is deprecated; use {new_names[name]}", DeprecationWarning, stacklevel=2
        )
        return getattr(sys.modules[module], new_names[name])

    return look_up
