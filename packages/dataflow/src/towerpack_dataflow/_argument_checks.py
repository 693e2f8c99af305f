"""Checks of arguments that flows share, and exports that are imported at their first use.

They are functions, not validators of attrs: importing attrs would take `import towerpack_dataflow` beyond its
limit, a little more than the time of `import numpy`, which `benchmarks/import_time.py` measures.
"""

from __future__ import annotations

import operator
import os
import re
import sys
import threading
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any

import numpy as np

from ._errors import ArgumentError, ArgumentTypeError

__all__ = ["count", "flag", "function", "lazy_exports", "names_in_stub", "one_of", "position", "seconds"]


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


def names_in_stub(file: str) -> dict[str, str]:
    """Returns the names that the stub of a package imports, each with the module it comes from.

    Args:
        file: the package's `__init__.py`, beside the stub.
    """
    with open(f"{file}i", encoding="utf-8") as stub:
        imports = re.findall(r"^from (\.[\w.]*) import (?:\(([^)]*)\)|(.*))$", stub.read(), re.MULTILINE)
    listed = [(source, (several or one).split(",")) for source, several, one in imports]
    return {each.split()[-1]: source for source, names in listed for each in names if each.strip()}


def lazy_exports(
    package: str, sources: Mapping[str, str], new_names: Mapping[str, str] = MappingProxyType({})
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Returns a package's `__getattr__` and `__dir__` for names that are imported at their first use.

    Args:
        package: the name of the package.
        sources: the module of each name, relative to the package; "." for a module in the package.
        new_names: the new name of each old one.
    """

    # By process, since a fork may copy a lock that another thread holds.
    locks: dict[int, Any] = {}

    def look_up(name: str) -> Any:
        if (source := sources.get(name)) is not None:
            # Packages import modules of each other, which Python reports as a deadlock of threads.
            with locks.setdefault(os.getpid(), threading.RLock()):
                found = import_module(source + name if source == "." else source, package)
            value = found if source == "." else getattr(found, name)
            setattr(sys.modules[package], name, value)
            return value
        if name not in new_names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        warnings.warn(
            f"{package}.{name} is deprecated; use {new_names[name]}", DeprecationWarning, stacklevel=2
        )
        return getattr(sys.modules[package], new_names[name])

    return look_up, lambda: sorted({*vars(sys.modules[package]), *sources})
