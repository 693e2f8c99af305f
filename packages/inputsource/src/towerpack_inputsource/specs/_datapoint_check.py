"""Checks that a datapoint is what the graph declared, before TensorFlow sees it. Knows NumPy only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._errors import DatapointError, DatapointShapeError, DatapointStructureError, DatapointTypeError

Array = npt.NDArray[Any]
Shape = tuple["int | None", ...] | None

# TensorFlow aliases an array at such an address instead of copying it.
_ALIASED_AT = 64
# Memory that nobody can write to any more, although NumPy does not own it.
_FROZEN_OWNERS: tuple[type, ...] = (bytes,)
# What owns lent memory says with this attribute that the lender leaves it alone for as long as the owner
# lives. By name and not by type, so that any flow can lend.
_LEASE = "towerpack_lease"


class Component(NamedTuple):
    """What one component of a datapoint must be.

    Attributes:
        name: the component's name; the key where datapoints are dicts.
        dtype: the NumPy dtype; of kind "O" for strings.
        shape: one entry per axis, None for any size; None for any rank.
    """

    name: str
    dtype: np.dtype[Any]
    shape: Shape


def compile_check(components: Sequence[Component]) -> Callable[[Any], list[Array]]:
    """Makes a function from a datapoint to the arrays to feed, in order, each as declared and safe to keep.

    Arrays must have the declared dtype; Python numbers, strings and lists are converted, if nothing gets
    lost. An array that somebody may still write to, and that TensorFlow would not copy, is copied.

    Args:
        components: what the datapoint must consist of.

    Returns:
        A function that raises a `DatapointError` naming the component, what came and what was declared.
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
        "Make the flow yield one component for each, in this order, for example with MapData."
    )


def _compile_component(number: int, component: Component) -> Callable[[Any], Array]:
    name, dtype, shape = component
    label = f"component {number} ({name!r})"
    is_text = dtype.kind == "O"
    exact = shape if shape is not None and None not in shape else None

    def take(value: Any) -> Array:
        if not isinstance(value, np.ndarray):
            value = _convert(value, dtype, label, number)
        elif value.dtype != dtype:
            if not is_text or value.dtype.kind not in "SU":
                raise _wrong_dtype(value.dtype, dtype, label, number)
            value = value.astype(object)
        if exact is not None:
            if value.shape != exact:
                raise _wrong_shape(value.shape, exact, label, number)
        elif not fits(value.shape, shape):
            raise _wrong_shape(value.shape, shape, label, number)
        array: Array = value.copy() if _would_be_shared(value) else value
        return array

    return take


def fits(shape: tuple[int, ...], declared: Shape) -> bool:
    """Says whether a shape is one of those that a declared shape allows.

    >>> fits((32, 28), (None, 28)), fits((32,), (None, 28)), fits((3, 4, 5), None)
    (True, False, True)
    """
    if declared is None:
        return True
    if len(shape) != len(declared):
        return False
    return all(want is None or have == want for have, want in zip(shape, declared))


def _would_be_shared(array: Array) -> bool:
    """Says whether TensorFlow would alias memory that somebody may still write to."""
    if array.__array_interface__["data"][0] % _ALIASED_AT or array.dtype.kind == "O":
        return False
    owner: Any = array
    while isinstance(owner, (np.ndarray, memoryview)):
        if isinstance(owner, np.ndarray):
            writeable, owner = owner.flags.writeable, owner.base
        else:  # arrays that came out of a pickle stand on one
            writeable, owner = not owner.readonly, owner.obj
        if writeable:
            return True
    return not (owner is None or isinstance(owner, _FROZEN_OWNERS) or getattr(owner, _LEASE, False))


def _convert(value: Any, dtype: np.dtype[Any], label: str, number: int) -> Array:
    """Converts what is not an array; a NumPy scalar has a dtype, so it is held to it like an array."""
    if dtype.kind == "O":
        return np.asarray(value, dtype=object)
    try:
        plain = np.asarray(value)
    except ValueError as error:
        raise DatapointShapeError(f"{label}: cannot make an array of the received value: {error}") from error
    if isinstance(value, np.generic) and plain.dtype != dtype:
        raise _wrong_dtype(plain.dtype, dtype, label, number)
    if plain.dtype.kind not in "biufcV":
        raise _wrong_dtype(plain.dtype, dtype, label, number)
    with np.errstate(all="ignore"):
        converted = plain.astype(dtype)
    # Floats lose precision without harm; an integer that became another number is a mistake.
    if dtype.kind in "biu" and not np.array_equal(converted, plain):
        raise DatapointTypeError(
            f"{label}: received {value!r}, which is not a value of the declared dtype {dtype}."
        )
    return converted


def _wrong_dtype(received: np.dtype[Any], declared: np.dtype[Any], label: str, number: int) -> DatapointError:
    wanted = "str" if declared.kind == "O" else str(declared)
    return DatapointTypeError(
        f"{label}: received dtype {received}, declared is {wanted}. Convert it in the flow: "
        f"MapDataComponent(df, lambda x: np.asarray(x, {wanted!r}), {number}), or declare {received}."
    )


def _wrong_shape(received: tuple[int, ...], declared: Shape, label: str, number: int) -> DatapointError:
    return DatapointShapeError(
        f"{label}: received shape {received}, declared is {declared}. Change it in the flow "
        f"(MapDataComponent(df, function, {number}), BatchData), or declare None where the size varies."
    )
