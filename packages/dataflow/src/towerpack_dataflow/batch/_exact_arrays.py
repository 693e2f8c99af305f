"""Exact conversion of values to arrays: a mask, a unit or a bit that would be lost is rejected."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..flow._columns import number_kind, only_values

__all__ = ["USE_LIST", "UnlikeError", "as_array", "described"]

USE_LIST = "make them alike in a MapData below, or set use_list=True, which keeps lists"


class UnlikeError(Exception):
    """A value does not match those before it; the collator adds the index of the datapoint."""


def as_array(key: Any, value: Any) -> np.ndarray:
    """Returns an array unchanged; converts a list of numbers, or an array of another library.

    Args:
        key: key of the component, for errors.
        value: an array, a tensor or any other object with `__array__`; or a list or tuple, nested or not, of
            numbers of one type or of arrays. Integers may stand among floats if float64 represents them.

    Raises:
        UnlikeError: the value is neither of these, or the conversion would lose information.
    """
    if isinstance(value, np.ndarray):
        return _values_of(key, value)
    if hasattr(value, "__array__"):
        return _of_other_library(key, value)
    array = None
    if isinstance(value, (list, tuple)):
        try:
            array = np.asarray(value)
        except (ValueError, OverflowError):  # a ragged list, an integer beyond 64 bits
            array = None
    if array is None or array.dtype.kind not in "biufc":
        raise UnlikeError(
            f"has {described(value)} in component {key!r}; a batch holds arrays, numbers, strings and bytes; "
            f"{USE_LIST}"
        )
    _check_members(key, value, array)
    return array


def described(value: Any) -> str:
    """Returns type and value, shortened, for messages."""
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 40 else text[:37] + '...'}"


def _of_other_library(key: Any, value: Any) -> np.ndarray:
    if hasattr(value, "units") or hasattr(value, "unit"):
        raise _with_attributes(key, value)
    try:
        array = np.asarray(value)
    except Exception as error:  # it is in a device's memory, or has a type unknown to NumPy
        raise UnlikeError(
            f"has {described(value)} in component {key!r}, which numpy.asarray() refuses "
            f"({type(error).__name__}: {error}); make it an array in a MapDataComponent below"
        ) from error
    if array.dtype.hasobject:
        raise UnlikeError(
            f"has {described(value)} in component {key!r}, which NumPy converts to an array of objects; "
            f"{USE_LIST}"
        )
    return _values_of(key, array)


def _values_of(key: Any, array: np.ndarray) -> np.ndarray:
    """Returns an array of a subclass as a plain one, if only its class is lost."""
    if type(array) is np.ndarray:
        return array
    if only_values(array):
        return np.asarray(array)
    if isinstance(array, np.ma.MaskedArray):
        raise UnlikeError(
            f"has a masked array in component {key!r}, and a batch has no masks; fill it below: "
            f"MapDataComponent(ds, lambda x: x.filled(0), {key!r}), and add numpy.ma.getmaskarray(x) as "
            "another component if needed, or set use_list=True, which keeps it"
        )
    raise _with_attributes(key, array)


def _with_attributes(key: Any, value: Any) -> UnlikeError:
    return UnlikeError(
        f"has {type(value).__name__}, a subclass of numpy.ndarray, in component {key!r}, and a batch would "
        "drop its attributes, such as a unit; use numpy.asarray(x) if the values are sufficient, or "
        "set use_list=True, which keeps it"
    )


def _check_members(key: Any, value: Any, array: np.ndarray) -> None:
    """Checks that an array holds the members of a list unchanged.

    Raises:
        UnlikeError: a number would change its value or kind in the array.
    """
    members = list(_members(value))
    kinds = {_kind(key, member) for member in members}
    if kinds == {int, float}:
        exact = all(one == member or member != member for one, member in zip(array.ravel().tolist(), members))
    else:
        exact = len(kinds) < 2 and None not in kinds and (kinds != {int} or array.dtype == np.int64)
    if not exact:
        raise UnlikeError(
            f"has {described(value)} in component {key!r}, and an array of {array.dtype} would change a "
            f"member or its type; make it an array of one type in a MapData below, or set use_list=True"
        )


def _members(value: Any) -> Iterator[Any]:
    for member in value:
        if isinstance(member, (list, tuple, range)):
            yield from _members(member)
        else:
            yield member


def _kind(key: Any, member: Any) -> Any:
    """Returns the dtype of an array or a NumPy scalar, or the type of a Python number; else `None`."""
    if isinstance(member, np.ndarray):
        return _values_of(key, member).dtype
    return member.dtype if isinstance(member, np.generic) else number_kind(type(member))
