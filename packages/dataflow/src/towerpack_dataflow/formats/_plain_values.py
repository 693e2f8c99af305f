"""Shared code of writers: progress bars, values in messages, and plain values of text formats."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np

__all__ = ["checked_value", "plain_scalar", "shown", "with_progress"]


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


def with_progress(items: Iterable[Any], what: str) -> Iterable[Any]:
    """Yields `items` and shows their count on standard error.

    Args:
        items: the items; their total is shown as well if they have a `len()`.
        what: label of the bar, such as the name of a file.
    """
    try:
        from tqdm import tqdm
    except ImportError:  # installed with the extras of formats with long conversions
        return items
    try:
        total = len(items)  # type: ignore[arg-type]
    except TypeError:
        total = None
    # Without a terminal, at most one line per half minute.
    bar: Iterable[Any] = tqdm(items, desc=what, total=total, mininterval=0.5, leave=False, disable=None)
    return bar


_NUMBERS: Final = "biuf"
_KEPT: Final = frozenset({bool, int, float, str, type(None)})
_CONVERT: Final = "plain=True writes it as plain values"


def checked_value(value: Any, plain: bool) -> Any:
    """Returns a value that JSON can hold.

    Args:
        value: any value.
        plain: whether to convert values that are read as others: NumPy scalars and arrays to Python numbers
            and lists, tuples to lists.

    Raises:
        TypeError: JSON has no such value, or it would be read as another one.

    Example:
        >>> checked_value({"x": (1, np.float32(0.5))}, plain=True)
        {'x': [1, 0.5]}
    """
    kind = type(value)
    if kind in _KEPT:
        return value
    if kind is list:
        return [checked_value(part, plain) for part in value]
    if kind is dict:
        for key in value:
            if type(key) is not str:
                raise TypeError(f"keys are text; received the key {shown(key)}")
        return {key: checked_value(part, plain) for key, part in value.items()}
    if isinstance(value, (np.ndarray, np.generic, tuple)):
        if not plain:
            raise TypeError(f"a {kind.__name__} would be read as plain values; {_CONVERT}")
        return checked_value(_converted(value), plain)
    raise TypeError(f"a {kind.__name__} cannot be part of it")


def plain_scalar(value: Any) -> Any:
    """Returns a NumPy scalar as a Python number or string, and any other value unchanged.

    Raises:
        TypeError: Python has no equivalent number.
    """
    return _converted(value) if isinstance(value, np.generic) else value


def _converted(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError("a masked array has missing values; write its data and its mask")
    if value.dtype.kind not in f"{_NUMBERS}U" or isinstance(value, np.longdouble):
        raise TypeError(f"the dtype {value.dtype} has no plain values")
    return value.tolist()
