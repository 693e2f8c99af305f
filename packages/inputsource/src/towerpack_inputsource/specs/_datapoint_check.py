"""Checks that a datapoint matches the specs, before it reaches TensorFlow. Needs only NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, final

import numpy as np

from .._errors import DatapointShapeError, DatapointStructureError
from ._exact_conversion import Array, NumberConversion, TextConversion

__all__ = ["Array", "Component", "Shape", "compile_check", "fits"]

Shape = tuple["int | None", ...] | None

# TensorFlow aliases an array at an address with this alignment instead of copying it.
_ALIASED_AT = 64
# Owners of memory that nothing can write to. NumPy's memory is never safe: the owner of the array or of an
# older view may write to it, even if `flags.writeable` of this array is False.
_FROZEN_OWNERS: tuple[type, ...] = (bytes,)
# The owner of lent memory has this attribute: the lender does not write to the memory while the owner exists.
# An attribute instead of a type, so that any flow can lend.
_LEASE = "towerpack_lease"


@final
class Component(NamedTuple):
    """The declaration of one component of a datapoint.

    Attributes:
        name: the component's name; the key if datapoints are dicts.
        dtype: the NumPy dtype; of kind "O" for strings.
        shape: one entry per axis, None for any size; None for any rank.
    """

    name: str
    dtype: np.dtype[Any]
    shape: Shape


def compile_check(components: Sequence[Component]) -> Callable[[Any], list[Array]]:
    """Makes a function that converts a datapoint to the arrays to feed, in order, checked and safe to keep.

    Arrays must have the declared dtype, or one of the same kind with exactly convertible values; Python
    numbers, strings and lists are converted if no information is lost. An array that TensorFlow would alias
    and that may still be modified is copied.

    Args:
        components: the declarations of the datapoint's components.

    Returns:
        A function that raises a `DatapointError` with the component, the received and the declared value for
        a mismatch.
    """
    takers = [_compile_component(number, component) for number, component in enumerate(components)]
    names = [component.name for component in components]
    count = len(takers)

    def check(datapoint: Any) -> list[Array]:
        if isinstance(datapoint, Mapping):
            datapoint = _in_order(datapoint, names)
        elif not isinstance(datapoint, (list, tuple)) or len(datapoint) != count:
            raise _wrong_structure(datapoint, names)
        return [take(value) for take, value in zip(takers, datapoint)]

    return check


def _in_order(datapoint: Mapping[str, Any], names: list[str]) -> list[Any]:
    if len(datapoint) != len(names) or not all(name in datapoint for name in names):
        raise DatapointStructureError(
            f"received a dict with the keys {sorted(map(str, datapoint))}, declared are {names}. "
            "Give exactly the declared keys, for example with MapData."
        )
    return [datapoint[name] for name in names]


def _wrong_structure(datapoint: Any, names: list[str]) -> DatapointStructureError:
    if isinstance(datapoint, (list, tuple)):
        received = f"{len(datapoint)} components"
    else:
        received = f"{type(datapoint).__name__} instead of a list, tuple or dict of components"
    return DatapointStructureError(
        f"received {received}, declared are {len(names)}: {names}. "
        "Yield one component for each from the flow, in this order, for example with MapData."
    )


def _compile_component(number: int, component: Component) -> Callable[[Any], Array]:
    dtype, shape = component.dtype, component.shape
    label = f"component {number} ({component.name!r})"
    exact = shape if shape is not None and None not in shape else None
    to_dtype = TextConversion(label, number) if dtype.kind == "O" else NumberConversion(dtype, label, number)

    def take(value: Any) -> Array:
        if type(value) is not np.ndarray or value.dtype != dtype or to_dtype.looks_at_each:
            value = to_dtype(value)
        if exact is not None:
            if value.shape != exact:
                raise _wrong_shape(value.shape, exact, label, number)
        elif not fits(value.shape, shape):
            raise _wrong_shape(value.shape, shape, label, number)
        array: Array = value.copy() if _would_be_shared(value) else value
        return array

    return take


def fits(shape: tuple[int, ...], declared: Shape) -> bool:
    """Returns whether a shape matches a declared shape.

    >>> fits((32, 28), (None, 28)), fits((32,), (None, 28)), fits((3, 4, 5), None)
    (True, False, True)
    """
    if declared is None:
        return True
    if len(shape) != len(declared):
        return False
    return all(want is None or have == want for have, want in zip(shape, declared))


def _would_be_shared(array: Array) -> bool:
    """Returns whether TensorFlow would alias memory that may still be modified."""
    if array.__array_interface__["data"][0] % _ALIASED_AT or array.dtype.kind == "O":
        return False
    owner: Any = array
    while isinstance(owner, (np.ndarray, memoryview)):
        if isinstance(owner, np.ndarray):
            writeable, owner = owner.flags.writeable, owner.base
        else:  # the owner of an unpickled array is a memoryview
            writeable, owner = not owner.readonly, owner.obj
        if writeable:
            return True
    return not (isinstance(owner, _FROZEN_OWNERS) or getattr(owner, _LEASE, False))


def _wrong_shape(received: tuple[int, ...], declared: Shape, label: str, number: int) -> DatapointShapeError:
    return DatapointShapeError(
        f"{label}: received shape {received}, declared is {declared}. Change it in the flow "
        f"(MapDataComponent(df, function, {number}), BatchData), or declare None if the size varies."
    )
