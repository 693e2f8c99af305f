"""Builders for one component of a batch, value by value: arrays, numbers, strings and lists."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, final

import numpy as np

from .._errors import BatchError
from ..flow._columns import NUMBER_DTYPES
from ..storage import snapshot
from ._batch_allocator import Rows

__all__ = [
    "ArrayBuilder",
    "ComponentBuilder",
    "ListBuilder",
    "UnlikeError",
    "as_array",
    "builder_for",
    "described",
]

_USE_LIST = "make them alike in a MapData below, or take use_list=True, which keeps lists"


class UnlikeError(Exception):
    """A value does not go with those before it; the collator adds which datapoint it was in."""


class ComponentBuilder(ABC):
    """Builds one component of one batch.

    Args:
        key: of the component: a position, or the key of a dict.
    """

    def __init__(self, key: Any) -> None:
        """Starts without values."""
        self.key = key

    @abstractmethod
    def put(self, row: int, value: Any) -> None:
        """Takes the value of datapoint `row`.

        Raises:
            UnlikeError: the value does not go with those before it.
        """

    @abstractmethod
    def finish(self, count: int) -> Any:
        """Returns the component of the batch, of `count` values."""


@final
class ListBuilder(ComponentBuilder):
    """Keeps the values as a list."""

    def __init__(self, key: Any) -> None:
        """Starts with an empty list."""
        super().__init__(key)
        self._values: list[Any] = []

    def put(self, row: int, value: Any) -> None:
        """Appends the value as it is now."""
        (value,) = snapshot((value,))
        self._values.append(value)

    def finish(self, count: int) -> list[Any]:
        """Returns the list."""
        return self._values


@final
class _ObjectBuilder(ComponentBuilder):
    """Makes object arrays of strings or bytes: NumPy's own string types pad, and cut off trailing NULs."""

    def __init__(self, key: Any, kind: type) -> None:
        super().__init__(key)
        self._kind = kind
        self._values: list[Any] = []

    def put(self, row: int, value: Any) -> None:
        if not isinstance(value, self._kind):
            raise UnlikeError(_other_type(self.key, value, self._kind.__name__))
        self._values.append(value)

    def finish(self, count: int) -> np.ndarray:
        batch = np.empty(count, object)
        batch[:] = self._values
        return batch


@final
class _NumberBuilder(ComponentBuilder):
    """Makes arrays of Python's numbers: bool, int32 (wider if the batch needs it), float32, complex64."""

    def __init__(self, key: Any, kind: type) -> None:
        super().__init__(key)
        self._kind = kind
        self._values: list[Any] = []

    def put(self, row: int, value: Any) -> None:
        if type(value) is not self._kind and _number_kind(value) is not self._kind:
            raise UnlikeError(_other_type(self.key, value, f"Python {self._kind.__name__}"))
        self._values.append(value)

    def finish(self, count: int) -> np.ndarray:
        return np.array(self._values, self._integers() if self._kind is int else NUMBER_DTYPES[self._kind])

    def _integers(self) -> np.dtype:
        low, high = min(self._values), max(self._values)
        for dtype in (np.int32, np.int64, np.uint64):
            if np.iinfo(dtype).min <= low and high <= np.iinfo(dtype).max:
                return np.dtype(dtype)
        raise BatchError(
            f"cannot batch: component {self.key!r} holds the integers {low} to {high}, which no NumPy "
            f"integer type covers; {_USE_LIST}"
        )


@final
class ArrayBuilder(ComponentBuilder):
    """Copies arrays and NumPy scalars of one shape and dtype into one buffer.

    Args:
        key: of the component.
        shape: of each value.
        dtype: of each value.

    Attributes:
        buffer: the memory of the component, which the collator sets before the first value.
        rows: what the values are assigned to; the buffer, or an object that copies into it.
        written: what to call when all values are assigned.
    """

    buffer: np.ndarray
    rows: Rows
    written: Callable[[], object]

    def __init__(self, key: Any, shape: tuple[int, ...], dtype: np.dtype) -> None:
        """Starts without a buffer."""
        super().__init__(key)
        self.shape = shape
        self.dtype = dtype

    def put(self, row: int, value: Any) -> None:
        """Assigns a value to a row of the buffer.

        Raises:
            UnlikeError: the value has another shape or dtype.
        """
        if type(value) is not np.ndarray and not isinstance(value, (np.ndarray, np.generic)):
            value = as_array(self.key, value)
        if value.shape != self.shape:
            raise UnlikeError(
                f"has shape {value.shape} in component {self.key!r}, and the batch began with {self.shape}; "
                f"{_USE_LIST}"
            )
        if value.dtype is not self.dtype and value.dtype != self.dtype:
            raise UnlikeError(
                f"has dtype {value.dtype} in component {self.key!r}, and the batch began with {self.dtype}; "
                f"{_USE_LIST}"
            )
        self.rows[row] = value

    def finish(self, count: int) -> np.ndarray:
        """Returns the buffer, or the part of it that was written."""
        self.written()
        return self.buffer if count == len(self.buffer) else self.buffer[:count]


def builder_for(key: Any, value: Any) -> ComponentBuilder:
    """Returns the builder that fits the first value of a component.

    Raises:
        UnlikeError: no batch can hold such a value.
    """
    for kind in (str, bytes):
        if isinstance(value, kind):
            return _ObjectBuilder(key, kind)
    if not isinstance(value, (np.ndarray, np.generic)):
        number = _number_kind(value)
        if number is not None:
            return _NumberBuilder(key, number)
        value = as_array(key, value)
    return ArrayBuilder(key, value.shape, value.dtype)


def described(value: Any) -> str:
    """Returns type and value, cut short, for messages."""
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 40 else text[:37] + '...'}"


def _number_kind(value: Any) -> type | None:
    """Returns which of Python's number types `value` is; NumPy's, which inherit from them, are none."""
    if isinstance(value, np.generic):
        return None
    return next((kind for kind in (bool, int, float, complex) if isinstance(value, kind)), None)


def as_array(key: Any, value: Any) -> np.ndarray:
    """Returns an array as it is, and makes one of a list of numbers.

    Raises:
        UnlikeError: the value is neither, and no component of a batch.
    """
    if isinstance(value, np.ndarray):
        return value
    array = None
    if isinstance(value, (list, tuple)):
        try:
            array = np.asarray(value)
        except ValueError:  # a ragged list
            array = None
    if array is None or array.dtype.kind not in "biufc":
        raise UnlikeError(
            f"has {described(value)} in component {key!r}; a batch holds arrays, numbers, strings and bytes; "
            f"{_USE_LIST}"
        )
    return array


def _other_type(key: Any, value: Any, before: str) -> str:
    return f"has {described(value)} in component {key!r}, and the batch began with {before}; {_USE_LIST}"
