"""Builders for one component of a batch, value by value: arrays, numbers, strings and lists."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, final

import numpy as np

from ..flow._columns import NUMBER_DTYPES, number_kind, stays_same
from ..storage import snapshot
from ._buffer_pool import Rows
from ._exact_arrays import USE_LIST, UnlikeError, as_array, described

__all__ = [
    "ArrayBuilder",
    "ComponentBuilder",
    "ListBuilder",
    "builder_for",
]


class ComponentBuilder(ABC):
    """Builds one component of one batch.

    Args:
        key: key of the component: a position, or the key of a dict.
    """

    def __init__(self, key: Any) -> None:
        """Creates a builder without values."""
        self.key = key

    @abstractmethod
    def put(self, row: int, value: Any) -> None:
        """Adds the value of datapoint `row`.

        Raises:
            UnlikeError: the value does not match those before it.
        """

    @abstractmethod
    def finish(self, count: int) -> Any:
        """Returns the component of the batch, of `count` values."""


@final
class ListBuilder(ComponentBuilder):
    """Collects the values in a list."""

    def __init__(self, key: Any) -> None:
        """Starts with an empty list."""
        super().__init__(key)
        self._values: list[Any] = []

    def put(self, row: int, value: Any) -> None:
        """Appends a snapshot of the value."""
        (value,) = snapshot((value,))
        self._values.append(value)

    def finish(self, count: int) -> list[Any]:
        """Returns the list."""
        return self._values


@final
class _ObjectBuilder(ComponentBuilder):
    """Makes object arrays of strings or bytes: NumPy's string types pad, and drop trailing NULs."""

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
    """Builds arrays of Python numbers: bool, int32, float32 or complex64."""

    def __init__(self, key: Any, kind: type) -> None:
        super().__init__(key)
        self._kind = kind
        self._values: list[Any] = []

    def put(self, row: int, value: Any) -> None:
        if type(value) is not self._kind and number_kind(type(value)) is not self._kind:
            raise UnlikeError(_other_type(self.key, value, f"Python {self._kind.__name__}"))
        if not stays_same(value):
            raise UnlikeError(_would_change(self.key, value, self._kind))
        self._values.append(value)

    def finish(self, count: int) -> np.ndarray:
        return np.array(self._values, NUMBER_DTYPES[self._kind])


@final
class ArrayBuilder(ComponentBuilder):
    """Copies arrays and NumPy scalars of one shape and dtype into one buffer.

    Args:
        key: key of the component.
        shape: shape of each value.
        dtype: dtype of each value.

    Attributes:
        buffer: the memory of the component, set by the collator before the first value.
        rows: the target of assignments: the buffer, or an object that copies into it.
        written: called after the last assignment.
    """

    buffer: np.ndarray
    rows: Rows
    written: Callable[[], object]

    def __init__(self, key: Any, shape: tuple[int, ...], dtype: np.dtype) -> None:
        """Creates a builder without a buffer."""
        super().__init__(key)
        self.shape = shape
        self.dtype = dtype

    def put(self, row: int, value: Any) -> None:
        """Assigns a value to a row of the buffer.

        Raises:
            UnlikeError: the value has another shape or dtype.
        """
        if type(value) is not np.ndarray and not isinstance(value, np.generic):
            value = as_array(self.key, value)
        if value.shape != self.shape:
            raise UnlikeError(
                f"has shape {value.shape} in component {self.key!r}, and the batch began with {self.shape}; "
                f"{USE_LIST}"
            )
        if value.dtype is not self.dtype and value.dtype != self.dtype:
            raise UnlikeError(
                f"has dtype {value.dtype} in component {self.key!r}, and the batch began with {self.dtype}; "
                f"{USE_LIST}"
            )
        self.rows[row] = value

    def finish(self, count: int) -> np.ndarray:
        """Returns the buffer, or its written part."""
        self.written()
        return self.buffer if count == len(self.buffer) else self.buffer[:count]


def builder_for(key: Any, value: Any) -> ComponentBuilder:
    """Returns the builder for the first value of a component.

    Raises:
        UnlikeError: no batch can hold such a value.
    """
    for kind in (str, bytes):
        if isinstance(value, kind):
            return _ObjectBuilder(key, kind)
    number = number_kind(type(value))
    if number is not None:
        return _NumberBuilder(key, number)
    if not isinstance(value, np.generic):
        value = as_array(key, value)
    return ArrayBuilder(key, value.shape, value.dtype)


def _other_type(key: Any, value: Any, before: str) -> str:
    return f"has {described(value)} in component {key!r}, and the batch began with {before}; {USE_LIST}"


def _would_change(key: Any, value: Any, kind: type) -> str:
    dtype = np.dtype(NUMBER_DTYPES[kind]).name
    wide = {int: "int64", float: "float64", complex: "complex128"}[kind]
    return (
        f"has {described(value)} in component {key!r}; Python's {kind.__name__} becomes {dtype} in a batch, "
        f"which would change it. Give the component another type below: MapDataComponent(ds, numpy.{wide}, "
        f"{key!r}), or set use_list=True"
    )
