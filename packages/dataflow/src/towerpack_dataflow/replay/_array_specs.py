"""Shapes and dtypes of the observations and actions of a memory, with checks of arrays against them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import Any, NamedTuple

import numpy as np

from .._errors import ArgumentError, ArgumentTypeError
from ..flow._columns import cast, castable

__all__ = [
    "ArraySpec",
    "Nested",
    "array_specs",
    "checked_array",
    "named",
    "nested",
    "numbers",
    "rewards",
    "switches",
]

Nested = np.ndarray | dict[str, np.ndarray]


class ArraySpec(NamedTuple):
    """The shape and the dtype of one array, without a batch axis."""

    shape: tuple[int, ...]
    dtype: np.dtype

    @property
    def nbytes(self) -> int:
        """The bytes of one such array."""
        return prod(self.shape) * self.dtype.itemsize


_NUMBER, _SWITCH = ArraySpec((), np.dtype(np.float32)), ArraySpec((), np.dtype(bool))


def array_specs(name: str, space: Any) -> dict[str, ArraySpec]:
    """Returns the arrays of a space by name; a single array has the name "".

    Args:
        name: name of the argument, for messages.
        space: an object with `shape` and `dtype` (a space of gymnasium, an array), a pair of both, or a
            mapping of such objects by name (a Dict space).

    Raises:
        ArgumentTypeError: the space is of another kind, or its arrays hold Python objects.
    """
    members = getattr(space, "spaces", space)
    if not isinstance(members, Mapping):
        return {"": _spec(name, space)}
    if not members or not all(isinstance(key, str) and key for key in members):
        raise ArgumentTypeError(f"{name} names its arrays by strings; received {list(members)!r}")
    return {key: _spec(f"{name}[{key!r}]", member) for key, member in members.items()}


def nested(parts: Mapping[str, Any]) -> Any:
    """Returns the single array, or the dict of arrays, named by `array_specs`."""
    return parts[""] if "" in parts else dict(parts)


def named(name: str, value: Any, specs: Mapping[str, ArraySpec]) -> Mapping[str, Any]:
    """Returns the arrays of a value under the names of their specs.

    Raises:
        ArgumentError: the value lacks arrays, or has others.
    """
    if "" in specs:
        return {"": value}
    if not isinstance(value, Mapping) or value.keys() != specs.keys():
        found = sorted(map(str, value)) if isinstance(value, Mapping) else type(value).__name__
        raise ArgumentError(f"{name} is a dict with the arrays {sorted(specs)}; received {found}")
    return value


def checked_array(name: str, value: Any, spec: ArraySpec, lead: tuple[int, ...]) -> np.ndarray:
    """Returns the same values as an array of shape `lead + spec.shape`, with the dtype of the spec.

    Raises:
        ArgumentError: the shape differs, the dtype cannot represent a value, or a mask hides values.
        ArgumentTypeError: the dtype cannot be converted to that of the spec without a change of meaning.
    """
    array = _array(name, value, spec, lead)
    if array.dtype == spec.dtype:
        return array
    converted, wrong = cast(array, spec.dtype)
    if wrong.any():
        raise ArgumentError(
            f"{name} has dtype {spec.dtype}; received numbers that do not fit into it, such as "
            f"{array[wrong].flat[0]!r}. Round them, or create the memory for another dtype"
        )
    return converted


def _array(name: str, value: Any, spec: ArraySpec, lead: tuple[int, ...]) -> np.ndarray:
    """Returns an array of the right shape, and of a dtype that is convertible to that of the spec."""
    array = np.asarray(value)
    if type(value) is not np.ndarray:
        _check_leaves(name, value, array.dtype.kind)
        if np.ma.is_masked(value):
            raise ArgumentError(f"{name} is an array of values; received a mask that hides some. Fill it")
    if array.shape != lead + spec.shape:
        raise ArgumentError(
            f"{name} has shape {lead + spec.shape}; received {array.shape}. "
            "The memory was created for other arrays, or a batch axis is missing"
        )
    if array.dtype != spec.dtype and not castable(array.dtype, spec.dtype):
        raise ArgumentTypeError(
            f"{name} has dtype {spec.dtype}; received {array.dtype}, which does not convert to it. "
            "Convert it, or create the memory for that dtype"
        )
    return array


def _check_leaves(name: str, value: Any, kind: str) -> None:
    """Checks that NumPy changes no values when it converts other objects to an array.

    NumPy rounds integers among floats, converts numbers among strings to strings, and drops trailing zero
    bytes.

    Raises:
        ArgumentError: a value has changed.
    """
    for leaf in _leaves(value):
        is_text = isinstance(leaf, (str, bytes))
        rounded = type(leaf) is int and kind in "fc" and int(float(leaf)) != leaf
        cut = is_text and leaf[-1:] in ("\0", b"\0")
        if rounded or cut or (kind in "SU" and not is_text):
            raise ArgumentError(
                f"{name} has {leaf!r:.100}, which NumPy changes when it converts a {type(value).__name__} to "
                "an array; pass an array with this value"
            )


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple)):
        for part in value:
            yield from _leaves(part)
    elif not isinstance(value, (np.ndarray, np.generic)):
        yield value


def numbers(name: str, value: Any, lead: tuple[int, ...]) -> np.ndarray:
    """Returns numbers as a float32 array of this shape, with rounding.

    Raises:
        ArgumentError: the shape differs.
        ArgumentTypeError: the values are not real numbers.
    """
    array = _array(name, value, _NUMBER, lead)
    if array.dtype == _NUMBER.dtype:
        return array
    with np.errstate(all="ignore"):
        return array.astype(_NUMBER.dtype)


def rewards(name: str, value: Any, lead: tuple[int, ...]) -> np.ndarray:
    """Returns finite numbers as a float32 array of this shape, with rounding.

    Raises:
        ArgumentError: the shape differs, or a number is not finite.
        ArgumentTypeError: the values are not real numbers.
    """
    array = numbers(name, value, lead)
    if np.count_nonzero(np.isfinite(array)) < array.size:  # faster than `all` for few environments
        where = tuple(map(int, np.argwhere(~np.isfinite(array))[0]))
        raise ArgumentError(
            f"{name} is finite in float32; received {np.asarray(value)[where]!r} at index {where}. "
            "Check its computation in the environment"
        )
    return array


def switches(name: str, value: Any, lead: tuple[int, ...]) -> np.ndarray:
    """Returns booleans as an array of this shape.

    Raises:
        ArgumentError: the shape differs.
        ArgumentTypeError: the values are not booleans.
    """
    return checked_array(name, value, _SWITCH, lead)


def _spec(name: str, space: Any) -> ArraySpec:
    is_pair = isinstance(space, tuple) and len(space) == 2
    parts: Any = space if is_pair else (getattr(space, "shape", None), getattr(space, "dtype", None))
    try:
        shape, dtype = tuple(map(int, parts[0])), np.dtype(parts[1])
    except (TypeError, ValueError) as error:
        raise _no_spec(name, space) from error
    usable = parts[1] is not None and not dtype.hasobject and dtype.itemsize and dtype.subdtype is None
    if not usable or min(shape, default=1) < 1:
        raise _no_spec(name, space)
    return ArraySpec(shape, dtype)


def _no_spec(name: str, space: Any) -> ArgumentTypeError:
    return ArgumentTypeError(
        f"{name} is a space of arrays: an object with shape and dtype, a pair (shape, dtype), or a dict of "
        f"these (gymnasium's Box, Discrete, MultiDiscrete, MultiBinary, Dict); received {space!r}. "
        "Flatten other spaces with a wrapper of the environment"
    )
