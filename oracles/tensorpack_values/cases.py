"""The registry of cases, which run alike by Tensorpack and by towerpack-compat, and what they share."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

Case = Callable[[], Any]
CASES: dict[str, Case] = {}


def case(function: Case) -> Case:
    """Adds a function as a case, by the names of its module and its own; it returns any nest of values."""
    add(f"{function.__module__.removesuffix('_cases')}/{function.__name__}", function)
    return function


def add(name: str, function: Case) -> None:
    """Adds a case by its name."""
    assert name not in CASES, name
    CASES[name] = function


def flat(value: Any, name: str = "") -> Iterator[tuple[str, np.ndarray]]:
    """Yields the arrays of a nest of lists, dicts, numbers, strings and arrays, by their places in it."""
    if isinstance(value, dict):
        yield f"{name}/keys", np.array(sorted(map(str, value)))
        for key, inner in value.items():
            yield from flat(inner, f"{name}/{key}")
    elif isinstance(value, (list, tuple)):
        yield f"{name}/length", np.array(len(value))
        for number, inner in enumerate(value):
            yield from flat(inner, f"{name}/{number}")
    elif value is None:
        yield name, np.array("None")
    else:
        array = np.asarray(value)
        yield name, array.astype(str) if array.dtype.kind == "O" else array


def raised(function: Callable[..., Any], *arguments: Any, **named: Any) -> bool:
    """Returns whether a call raises any error."""
    try:
        function(*arguments, **named)
    except Exception:
        return True
    return False


def drawn(name: str, shape: Any, low: float = -0.5, high: float = 0.5) -> np.ndarray:
    """Returns numbers that depend on a name alone."""
    random = np.random.RandomState(zlib.crc32(name.encode()))
    return random.uniform(low, high, tuple(shape)).astype("float32")


def image(dtype: str = "uint8", height: int = 17, width: int = 23, channels: int = 3) -> np.ndarray:
    """Returns an image."""
    return drawn("image", (height, width, channels), 0, 255).astype(dtype)
