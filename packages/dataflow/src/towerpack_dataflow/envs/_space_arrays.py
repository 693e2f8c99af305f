"""Observations and actions as arrays of fixed shapes: one per part of a space."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, final

import numpy as np
from gymnasium import spaces

from .._errors import EnvError
from ..flow._columns import cast, castable
from ..storage import aligned_size

__all__ = ["IDLE", "Part", "SpaceArrays", "StepMemory", "call_text"]

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


IDLE = -1  # in `current`, while no environment is called


@final
class StepMemory:
    """Arrays in one piece of shared memory, with a row for each environment of a worker.

    The parent writes `actions` and `wanted`, the worker the rest; only the receiver of the last message
    writes, so no lock is needed.

    Args:
        memory: a flat array of bytes; `None` to compute only the size.
        count: number of environments of the worker.
        observation, action: the spaces of one environment.

    Attributes:
        size: bytes.
        observations, actions: an array for each part of the space.
        rewards, terminated, truncated: results of the last step.
        wanted, ready: whether a step was requested, and whether it is done.
        episode, step: numbers of the current ones; -1 while an environment is reset.
        digest: CRC-32 of all observations, rewards and ends of the current episode so far.
        current: the environment being called, or `IDLE`.
        since: start of that call on the monotonic clock.
    """

    def __init__(
        self, memory: np.ndarray | None, count: int, observation: SpaceArrays, action: SpaceArrays
    ) -> None:
        """Lays out the arrays, each on a separate cache line."""
        self._memory = memory
        self.size = 0
        self.observations = [self._rows(count, part) for part in observation.parts]
        self.actions = [self._rows(count, part) for part in action.parts]
        self.rewards = self._array((count,), np.float64)
        self.terminated = self._array((count,), np.bool_)
        self.truncated = self._array((count,), np.bool_)
        self.wanted = self._array((count,), np.bool_)
        self.ready = self._array((count,), np.bool_)
        self.episode = self._array((count,), np.int64)
        self.step = self._array((count,), np.int64)
        self.digest = self._array((count,), np.uint32)
        self.current = self._array((1,), np.int64)
        self.since = self._array((1,), np.float64)

    def clear(self) -> None:
        """Marks all environments as idle and not reset."""
        self.current[0] = IDLE
        self.episode[:] = -1

    def doing(self, first: int) -> str:
        """Describes the current call of an environment, for messages.

        Args:
            first: the number of the first environment of the worker.
        """
        row = int(self.current[0])
        if row == IDLE:
            return "while it called no environment"
        return f"in environment {first + row}, {call_text(int(self.episode[row]), int(self.step[row]))}"

    def _rows(self, count: int, part: Part) -> np.ndarray:
        return self._array((count, *part.shape), part.dtype)

    def _array(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        begin, dtype = self.size, np.dtype(dtype)
        length = dtype.itemsize * int(np.prod(shape))
        self.size += aligned_size(length)
        if self._memory is None:
            return np.empty(0, dtype)
        array: np.ndarray = self._memory[begin : begin + length].view(dtype).reshape(shape)
        return array


def call_text(episode: int, step: int) -> str:
    """Describes a call of an environment; a `step` of -1 is the reset."""
    return f"in step {step} of episode {episode}" if step >= 0 else f"in the reset for episode {episode}"
