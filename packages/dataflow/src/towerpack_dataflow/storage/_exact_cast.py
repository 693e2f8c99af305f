"""Conversion of arrays to another dtype, with a check for changed values."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["cast", "castable"]

# By kind: any other conversion would change the meaning, such as text for a number.
_BECOMES = {
    "b": "biufc",
    "i": "iufc",
    "u": "iufc",
    "f": "fc",
    "c": "c",
    "S": "S",
    "U": "U",
}
_LARGEST = 2.0**63  # floats below this size become integers again


def castable(source: np.dtype, target: np.dtype) -> bool:
    """Returns whether values of a dtype keep their meaning in another dtype.

    Example:
        >>> castable(np.dtype("i8"), np.dtype("f4")), castable(np.dtype("f4"), np.dtype("i8"))
        (True, False)
        >>> castable(np.dtype("m8[Y]"), np.dtype("m8[D]"))  # a year has no fixed number of days
        False
    """
    if source.kind == target.kind and source.kind in "mM":
        return np.can_cast(source, target, "same_kind")
    return source == target or target.kind in _BECOMES.get(source.kind, "")


def cast(array: np.ndarray, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """Returns an array converted to a dtype, and a mask of changed values; NaN equals NaN.

    Args:
        array: array of a dtype that is `castable` to the other one.
        dtype: dtype of the result.

    Example:
        >>> cast(np.array([1, 300]), np.dtype("u1"))
        (array([ 1, 44], dtype=uint8), array([False,  True]))
    """
    with np.errstate(all="ignore"):
        try:
            converted = array.astype(dtype)
        except (OverflowError, TypeError):  # of times outside the range of a unit
            return np.zeros(array.shape, dtype), np.ones(array.shape, bool)
        back = _back(converted, array.dtype)
        wrong = back != array
        if array.dtype.kind in "fcMm":
            wrong &= (back == back) | (array == array)
    if array.dtype.kind in "iu":
        wrong |= _beyond(array, converted)
    return converted, np.asarray(wrong)


def _back(converted: np.ndarray, dtype: np.dtype) -> np.ndarray:
    parts: Any = converted.real if converted.dtype.kind == "c" and dtype.kind != "c" else converted
    return np.asarray(parts.astype(dtype))


def _beyond(array: np.ndarray, converted: np.ndarray) -> np.ndarray:
    """Returns where an integer changed its sign, or became a float beyond all integer types."""
    if converted.dtype.kind in "iu":
        return np.asarray((array < 0) != (converted < 0))
    return np.asarray(~(np.abs(converted) < _LARGEST))
