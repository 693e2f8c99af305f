"""Checks that a datapoint fits the specs, before TensorFlow gets it. Needs NumPy only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, final

import numpy as np
import numpy.typing as npt

from .._errors import DatapointError, DatapointShapeError, DatapointStructureError, DatapointTypeError

__all__ = ["Array", "Component", "Shape", "compile_check", "fits"]

Array = npt.NDArray[Any]
Shape = tuple["int | None", ...] | None

# TensorFlow aliases an array at such an address instead of copying it.
_ALIASED_AT = 64
# Types of memory that can never be written to, although NumPy does not own it.
_FROZEN_OWNERS: tuple[type, ...] = (bytes,)
# The owner of lent memory has this attribute: the lender does not write to the memory while the owner lives.
# By name and not by type, so that any flow can lend.
_LEASE = "towerpack_lease"


@final
class Component(NamedTuple):
    """The declaration of one component of a datapoint.

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
    lost. An array that may still be written to, and that TensorFlow would not copy, is copied.

    Args:
        components: the declarations of the datapoint's components.

    Returns:
        A function that raises a `DatapointError` with the component, the received and the declared value.
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
    """Returns whether a declared shape allows a shape.

    >>> fits((32, 28), (None, 28)), fits((32,), (None, 28)), fits((3, 4, 5), None)
    (True, False, True)
    """
    if declared is None:
        return True
    if len(shape) != len(declared):
        return False
    return all(want is None or have == want for have, want in zip(shape, declared))


def _would_be_shared(array: Array) -> bool:
    """Returns whether TensorFlow would alias memory that may still be written to."""
    if array.__array_interface__["data"][0] % _ALIASED_AT or array.dtype.kind == "O":
        return False
    owner: Any = array
    while isinstance(owner, (np.ndarray, memoryview)):
        if isinstance(owner, np.ndarray):
            writeable, owner = owner.flags.writeable, owner.base
        else:  # the owner of an array that was unpickled is a memoryview
            writeable, owner = not owner.readonly, owner.obj
        if writeable:
            return True
    return not (owner is None or isinstance(owner, _FROZEN_OWNERS) or getattr(owner, _LEASE, False))


def _convert(value: Any, dtype: np.dtype[Any], label: str, number: int) -> Array:
    """Converts a value that is no array; a NumPy scalar must have the declared dtype, as an array must."""
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
