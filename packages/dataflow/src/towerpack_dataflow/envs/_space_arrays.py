"""Observations and actions as arrays of fixed shapes: one per part of a space."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, final

import numpy as np
from gymnasium import spaces

from .._errors import EnvError
from ..storage._exact_cast import cast, castable

__all__ = ["Part", "SpaceArrays"]

_PLAIN = (spaces.Box, spaces.Discrete, spaces.MultiBinary, spaces.MultiDiscrete)


@final
class Part(NamedTuple):
    """One array of a space.

    Attributes:
        where: its place in the space, such as `["camera"]`; empty if the space is one array.
        shape: shape of one value.
        dtype: dtype of one value.
    """

    where: str
    shape: tuple[int, ...]
    dtype: np.dtype


@final
class SpaceArrays:
    """Splits values of a space into arrays, and combines them again.

    `Box`, `Discrete`, `MultiBinary` and `MultiDiscrete` are one array; `Dict` and `Tuple` have those of their
    parts, at any depth.

    Args:
        space: space of one environment.
        what: "observation" or "action", for messages.

    Attributes:
        space: the space.
        parts: its arrays.

    Raises:
        EnvError: a part of the space has no fixed shape.
    """

    def __init__(self, space: Any, what: str) -> None:
        """Finds the arrays of the space."""
        self.space = space
        self.parts = list(_parts(space, what, ""))
        self._plain = isinstance(space, _PLAIN)

    def apart(self, value: Any) -> Sequence[Any]:
        """Returns the arrays of a value, or of a batch of values, in the order of `parts`.

        Raises:
            ValueError: the value has other keys, or another length, than the space.
        """
        return (value,) if self._plain else list(_values(self.space, value, ""))

    def together(self, arrays: Sequence[Any]) -> Any:
        """Returns the value, or the batch, of these arrays."""
        return arrays[0] if self._plain else _together(self.space, iter(arrays))

    def fit(self, value: Any, shape: Callable[[Part], tuple[int, ...]]) -> list[np.ndarray]:
        """Returns the arrays of a value, of exactly the expected shapes and dtypes.

        Numbers of another dtype of the same kind are converted, floats by rounding.

        Raises:
            ValueError: a part has another shape, a dtype of another kind, or a number that its dtype cannot
                represent; the message names it.
        """
        fitting = []
        for part, given in zip(self.parts, self.apart(value)):
            array = np.asarray(given)
            if array.shape != shape(part):
                raise ValueError(f"{part.where}shape {array.shape}; expected {shape(part)}")
            fitting.append(array if array.dtype == part.dtype else _converted(array, part))
        return fitting


def _converted(array: np.ndarray, part: Part) -> np.ndarray:
    if not castable(array.dtype, part.dtype):
        raise ValueError(f"{part.where}dtype {array.dtype}; expected {part.dtype}")
    converted, wrong = cast(array, part.dtype)
    if array.dtype.kind in "fc":
        wrong = np.isfinite(array) & ~np.isfinite(converted)
    if wrong.any():
        raise ValueError(
            f"{part.where}{array[wrong].flat[0]!r}; expected numbers that {part.dtype} can represent"
        )
    return converted


def _parts(space: Any, what: str, where: str) -> Iterator[Part]:
    if isinstance(space, _PLAIN):
        yield Part(f"{where} of " if where else "", tuple(space.shape), np.dtype(space.dtype))
    elif isinstance(space, spaces.Dict):
        for key, inner in space.spaces.items():
            yield from _parts(inner, what, f"{where}[{key!r}]")
    elif isinstance(space, spaces.Tuple):
        for number, inner in enumerate(space.spaces):
            yield from _parts(inner, what, f"{where}[{number}]")
    else:
        raise EnvError(
            f"the {what} space{where} is {space!r}, which has no fixed shape and dtype; Box, "
            "Discrete, MultiBinary and MultiDiscrete are supported, and Dict and Tuple of them. Wrap the "
            "environment, with gymnasium.wrappers.TransformObservation for example"
        )


def _values(space: Any, value: Any, where: str) -> Iterator[Any]:
    if isinstance(space, spaces.Dict):
        if not isinstance(value, Mapping) or set(value) != set(space.spaces):
            keys = sorted(map(str, value)) if isinstance(value, Mapping) else type(value).__name__
            raise ValueError(f"{where and f'{where} of '}keys {keys}; expected {list(space.spaces)}")
        for key, inner in space.spaces.items():
            yield from _values(inner, value[key], f"{where}[{key!r}]")
    elif isinstance(space, spaces.Tuple):
        if not isinstance(value, (tuple, list)) or len(value) != len(space.spaces):
            raise ValueError(
                f"{where and f'{where} of '}{type(value).__name__}; expected a tuple of {len(space.spaces)}"
            )
        for number, (inner, part) in enumerate(zip(space.spaces, value)):
            yield from _values(inner, part, f"{where}[{number}]")
    else:
        yield value


def _together(space: Any, arrays: Iterator[Any]) -> Any:
    if isinstance(space, spaces.Dict):
        return {key: _together(inner, arrays) for key, inner in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_together(inner, arrays) for inner in space.spaces)
    return next(arrays)
