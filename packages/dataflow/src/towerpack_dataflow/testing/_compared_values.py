"""Exact comparison of values, and their text for messages."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["ConformanceError", "same", "shortened"]


class ConformanceError(AssertionError):
    """A flow, or another tested object, broke a promise; the message names it and the usual reason."""


def same(one: Any, other: Any) -> bool:
    """Tells whether two datapoints are equal in structure, types, dtypes, shapes and values; NaN equals NaN.

    Example:
        >>> same([np.float32(1), "a"], [np.float32(1), "a"]), same([1], [1.0])
        (True, False)
    """
    if type(one) is not type(other):
        return False
    if isinstance(one, (np.ndarray, np.generic)):
        return one.dtype == other.dtype and one.shape == other.shape and _same_values(one, other)
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other) or one != one


def _same_values(one: Any, other: Any) -> bool:
    if one.dtype.kind in "fc":
        return bool(np.array_equal(one, other, equal_nan=True))
    return bool(np.array_equal(one, other))


def shortened(value: Any) -> str:
    """Returns `value` as text of at most 120 characters, for messages."""
    text = repr(value)
    return text if len(text) <= 120 else text[:117] + "..."
