"""Lossless conversion of datapoints to one array per component."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

__all__ = ["PLAIN_ARRAYS", "stack_datapoints"]

PLAIN_ARRAYS: Final = frozenset({np.ndarray, np.memmap})  # other classes carry information, such as masks

_STACKABLE = "biufcmM"
_NUMBERS = {bool: np.bool_, int: np.int64, float: np.float64, complex: np.complex128}


def stack_datapoints(datapoints: list[Any]) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Returns one array per component, and a header with the information to read them.

    Args:
        datapoints: datapoints of any type.

    Returns:
        the header and the arrays by name; `None` if the datapoints differ in their structure, or a component
        differs in type, shape or dtype, or is neither an array of numbers nor a number.
    """
    kind, keys = _structure(datapoints[0]) if datapoints else (None, None)
    if not keys or any(_structure(datapoint) != (kind, keys) for datapoint in datapoints):
        return None
    arrays, python = {}, []
    for number, (key, _) in enumerate(keys):
        values = [datapoint[key] for datapoint in datapoints]
        array = _stacked(values)
        if array is None:
            return None
        arrays[f"component_{number}"] = array
        if type(values[0]) in _NUMBERS:
            python.append(number)
    head = {"kind": kind.__name__, "keys": [key for key, _ in keys], "python": python} if kind else {}
    return head, arrays


def _structure(datapoint: Any) -> tuple[type[Any], list[tuple[Any, type]] | None]:
    """Returns the type of a datapoint, and its keys with their types: 1, 1.0 and True are equal keys."""
    kind = type(datapoint)
    if kind is dict:
        keys = [(key, type(key)) for key in datapoint]
        return kind, keys if all(of in {str, int, bool} for _, of in keys) else None
    return kind, [(key, int) for key in range(len(datapoint))] if kind in {list, tuple} else None


def _stacked(values: list[Any]) -> np.ndarray | None:
    first = values[0]
    if type(first) in _NUMBERS:
        if any(type(value) is not type(first) for value in values):
            return None
        exact = type(first) is not int or all(-(2**63) <= value < 2**63 for value in values)
        return np.array(values, _NUMBERS[type(first)]) if exact else None
    layout = _layout(first)
    if layout is None or any(_layout(value) != layout for value in values):
        return None
    _, shape, dtype = layout
    array = np.empty((len(values), *shape), dtype)  # numpy.stack changes the order of bytes
    for number, value in enumerate(values):
        array[number] = value
    return array


def _layout(value: Any) -> tuple[bool, tuple[int, ...], np.dtype[Any]] | None:
    """Returns whether a value is a number, its shape and dtype; `None` if no array can have such rows."""
    number = isinstance(value, np.generic)
    # A row of an array with one axis is a number, so an array without axes would become one.
    if not number and not (type(value) in PLAIN_ARRAYS and value.ndim):
        return None
    return (number, value.shape, value.dtype) if value.dtype.kind in _STACKABLE else None
