"""Snapshots: datapoints that do not change when their producer continues.

A flow may fill one array repeatedly and yield it each time: a consumer of one datapoint at a time never
notices. Code that collects several datapoints must take a snapshot of each as it is yielded. New arrays are
the common case, and large ones must not be copied again. The reference count decides: memory referenced only
by the datapoint itself has no other writer.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterable, Iterator
from sys import getrefcount
from typing import Any

import numpy as np

__all__ = ["snapshot"]

_FIXED = frozenset({int, float, bool, complex, str, bytes, type(None), range, type})
_SMALL = 2**11  # bytes; a smaller copy is as cheap as the check whether it is needed
_OBJECTS = np.dtype(object)
_ndarray = np.ndarray


def snapshot(datapoint: Any) -> Any:
    """Returns `datapoint` with copies of all parts that could still change.

    Lists, dicts, tuples, bytearrays and arrays are examined at any depth. Other objects with another
    reference are copied deeply, if possible.

    Example:
        >>> memory = np.zeros(2)
        >>> kept = snapshot([memory, "text"])
        >>> memory[:] = 1
        >>> kept
        [array([0., 0.]), 'text']
    """
    # Unrolled for speed: a worker may do this for a million datapoints per second.
    kind = type(datapoint)
    made: Any
    parts: Iterable[tuple[Any, Any]]
    if kind is dict:
        made = datapoint.copy()
        parts = datapoint.items()
    elif kind is list or kind is tuple:
        made = list(datapoint)
        parts = enumerate(datapoint)
    else:
        return _value(datapoint, True)
    for place, value in parts:
        kind_of_value = type(value)
        if kind_of_value in _FIXED:
            continue
        if kind_of_value is _ndarray and value.dtype is not _OBJECTS:
            if value.base is None:
                if getrefcount(value) <= _ALONE:
                    continue
            elif value.nbytes > _SMALL:
                shared = getrefcount(value) > _ALONE
                if not _changes(value, shared):
                    continue
            made[place] = value.copy("K")
        else:
            shared = getrefcount(value) > _ALONE
            made[place] = _value(value, shared)
    return tuple(made) if kind is tuple else made


def _references(parts: Iterable[tuple[Any, Any]], made: list[Any]) -> int:
    for _, value in parts:
        return getrefcount(value)
    return len(made)


# The references held by a container, its copy, a loop and the call; they differ between releases of Python.
_SAMPLE = [np.empty(1)]
_ALONE = _references(enumerate(_SAMPLE), _SAMPLE.copy())


def _value(value: Any, shared: bool) -> Any:
    """Returns a snapshot of `value`; `shared` is true if anything else refers to it."""
    kind = type(value)
    if kind in _FIXED:
        return value
    if isinstance(value, np.ndarray):
        return _array(value, shared)
    if kind in {list, dict, tuple}:
        return snapshot(value)
    if isinstance(value, np.generic):
        return value.copy() if kind is np.void else value
    if shared:
        with contextlib.suppress(Exception):  # locks, files and connections cannot be copied
            return copy.deepcopy(value)
    return value


def _array(array: np.ndarray, shared: bool) -> np.ndarray:
    if array.dtype.hasobject and not set(map(type, array.flat)) <= _FIXED:
        return copy.deepcopy(array)
    if isinstance(array, np.ma.MaskedArray):  # its mask may be shared even if the values are not
        return array.copy()
    return array.copy("K") if _changes(array, shared) else array


def _changes(array: np.ndarray, shared: bool) -> bool:
    """Tells whether other code may still write to the array.

    Args:
        array: part of a datapoint.
        shared: whether anything else refers to it.
    """
    return (shared or _memory_is_shared(array)) and not _never_changes(array)


def _memory_is_shared(array: np.ndarray) -> bool:
    """Tells whether anything besides `array` refers to its memory, or to one of its base arrays."""
    for base in _bases(array):
        if getrefcount(base) > _ALONE_BASE:
            return True
        if not isinstance(base, np.ndarray):
            return type(base) is not bytes and not hasattr(base, "towerpack_lease")
    return False


def _bases(array: np.ndarray) -> Iterator[Any]:
    base = array.base
    while base is not None:
        yield base
        base = getattr(base, "base", None)


def _fresh_view() -> np.ndarray:
    return np.empty(2)[1:]


def _references_of_base(array: np.ndarray) -> int:
    for base in _bases(array):
        return getrefcount(base)
    return 0


_ALONE_BASE = _references_of_base(_fresh_view())


def _never_changes(array: np.ndarray) -> bool:
    """Tells whether the array and all its bases are read-only."""
    if array.flags.writeable:
        return False
    for base in _bases(array):
        if not isinstance(base, np.ndarray):
            return type(base) is bytes
        if base.flags.writeable:
            return False
    return True
