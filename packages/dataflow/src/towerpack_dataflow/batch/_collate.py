"""Datapoints into batches, item by item."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from .._errors import BatchError

Field = tuple[tuple[int, ...], np.dtype]

_INT32 = range(-(2**31), 2**31)
_DTYPES = {bool: np.bool_, float: np.float32, complex: np.complex64}
_USE_LIST = "make them alike in a MapData below, or take use_list=True, which keeps lists"


def nothing() -> None:
    """Does nothing, where something could be done."""


class Memory:
    """Where batches are built; here, in new memory each."""

    def allocate(self, fields: Sequence[Field]) -> Sequence[np.ndarray]:
        """The arrays of one batch, all at once: one for each shape and dtype, with arbitrary contents."""
        return [np.empty(shape, dtype) for shape, dtype in fields]

    def rows(self, buffer: np.ndarray) -> tuple[Rows, Callable[[], object]]:
        """What to assign the rows of such an array to, in order, and what to call when all are there."""
        return buffer, nothing


class Rows(Protocol):
    """An array, or what takes rows in its place."""

    def __setitem__(self, row: int, value: Any, /) -> None:
        """Takes a row."""


class Columns(NamedTuple):
    """What the batches of a flow look like that can fill the memory of a batch by itself.

    Attributes:
        kind: the type of datapoints and batches.
        keys: of the components, in order.
        fields: shape and dtype of each component in one datapoint.
    """

    kind: type[Any]
    keys: Sequence[Any]
    fields: Sequence[Field]

    def rows(self, count: int) -> list[Field]:
        """Shape and dtype of each component in a batch of `count`."""
        return [((count, *shape), dtype) for shape, dtype in self.fields]


def assembled(kind: type[Any], keys: Sequence[Any], values: Sequence[Any]) -> Any:
    """Components as a datapoint of type `kind`."""
    if issubclass(kind, dict):
        return dict(zip(keys, values))
    if issubclass(kind, list):
        return list(values)
    make = getattr(kind, "_make", tuple)  # a named tuple keeps its names
    return make(values)


def numbers_dtype(kind: type, values: Sequence[Any]) -> np.dtype | None:
    """The dtype that any batch out of these Python numbers has; `None` if it differs between batches."""
    if kind is int:
        fits = not values or (min(values) in _INT32 and max(values) in _INT32)
        return np.dtype(np.int32) if fits else None
    return np.dtype(_DTYPES[kind]) if kind in _DTYPES else None


class Collator:
    """Builds one batch after another from datapoints as they arrive.

    Each array is copied into the batch's buffer at once and let go, so that the memory it was made in, still
    warm, serves the next one. Collecting the datapoints first and stacking them costs several times as much.

    Args:
        size: datapoints in a full batch.
        use_list: keep each component as a list of what came, unstacked.
        memory: where batches are built, perhaps recycled or shared; new memory if `None`.
        number: index of the first datapoint in its pass, for error messages.
    """

    def __init__(
        self, size: int, use_list: bool = False, memory: Memory | None = None, number: int = 0
    ) -> None:
        """Starts with an empty batch."""
        self._size = size
        self._use_list = use_list
        self._memory = memory or Memory()
        self._number = number
        self._columns: list[_Column] = []
        self._puts: list[tuple[Any, Callable[[int, Any], None]]] = []
        self._kind: type[Any] = list
        self.count = 0

    @property
    def full(self) -> bool:
        """Whether the batch must be taken before the next datapoint."""
        return self.count == self._size

    def add(self, datapoint: Any) -> None:
        """Puts one datapoint into the batch.

        Raises:
            BatchError: if it does not go with those before it.
        """
        row = self.count
        if row == 0:
            self._open(datapoint)
        elif type(datapoint) is not self._kind or len(datapoint) != len(self._columns):
            raise self._other_outline(datapoint)
        try:
            for key, put in self._puts:
                put(row, datapoint[key])
        except KeyError:
            raise self._other_outline(datapoint) from None
        except _UnlikeError as error:
            raise self._unlike(str(error)) from None
        self.count = row + 1

    def take(self) -> Any:
        """The batch, of the datapoints' own type; the next one starts empty."""
        columns = self._columns
        values = [column.finish(self.count) for column in columns]
        self._number += self.count
        self._columns, self._puts = [], []
        self.count = 0
        return assembled(self._kind, [column.key for column in columns], values)

    def _open(self, datapoint: Any) -> None:
        if not isinstance(datapoint, (list, tuple, dict)):
            raise self._unlike(
                f"is {_outline(datapoint)}; a datapoint to batch is a list, tuple or dict of components: "
                "wrap it in a MapData, as [it]"
            )
        self._kind = type(datapoint)
        keys: Iterable[Any] = datapoint if isinstance(datapoint, dict) else range(len(datapoint))
        try:
            self._columns = [self._column(key, datapoint[key]) for key in keys]
        except _UnlikeError as error:
            raise self._unlike(str(error)) from None
        self._puts = [(column.key, column.put) for column in self._columns]
        arrays = [column for column in self._columns if isinstance(column, _Arrays)]
        fields = [((self._size, *column.shape), column.dtype) for column in arrays]
        for column, buffer in zip(arrays, self._memory.allocate(fields)):
            column.buffer = buffer
            column.rows, column.written = self._memory.rows(buffer)

    def _column(self, key: Any, value: Any) -> _Column:
        return _Column(key) if self._use_list else _column_for(key, value)

    def _other_outline(self, datapoint: Any) -> BatchError:
        keys = [column.key for column in self._columns]
        began = _outline_of(self._kind, keys)
        return self._unlike(f"is {_outline(datapoint)}; the batch began with {began}")

    def _unlike(self, what: str) -> BatchError:
        return BatchError(f"cannot batch: datapoint {self._number + self.count} of the pass {what}")


class _UnlikeError(Exception):
    """A value that does not go into its column; the collator says which datapoint it was."""


class _Column:
    """One component of a batch: here, the values as they came."""

    def __init__(self, key: Any) -> None:
        self.key = key
        self.values: list[Any] = []

    def put(self, row: int, value: Any) -> None:
        self.values.append(value)

    def finish(self, count: int) -> Any:
        return self.values


class _Objects(_Column):
    """Strings or bytes, as an object array: NumPy's own string types pad, and cut off trailing NULs."""

    def __init__(self, key: Any, kind: type) -> None:
        super().__init__(key)
        self.kind = kind

    def put(self, row: int, value: Any) -> None:
        if not isinstance(value, self.kind):
            raise _UnlikeError(_other_type(self.key, value, self.kind.__name__))
        self.values.append(value)

    def finish(self, count: int) -> np.ndarray:
        batch = np.empty(count, object)
        batch[:] = self.values
        return batch


class _Scalars(_Objects):
    """Python numbers: bool, int32 (wider if the batch needs it), float32, complex64."""

    def put(self, row: int, value: Any) -> None:
        if type(value) is not self.kind and _kind_of(value) is not self.kind:
            raise _UnlikeError(_other_type(self.key, value, f"Python {self.kind.__name__}"))
        self.values.append(value)

    def finish(self, count: int) -> np.ndarray:
        return np.array(self.values, self._integers() if self.kind is int else _DTYPES[self.kind])

    def _integers(self) -> np.dtype:
        low, high = min(self.values), max(self.values)
        for dtype in (np.int32, np.int64, np.uint64):
            if np.iinfo(dtype).min <= low and high <= np.iinfo(dtype).max:
                return np.dtype(dtype)
        raise BatchError(
            f"cannot batch: component {self.key!r} holds the integers {low} to {high}, which no NumPy "
            f"integer type covers; {_USE_LIST}"
        )


class _Arrays(_Column):
    """Arrays and NumPy scalars of one shape and dtype, copied into one buffer."""

    buffer: np.ndarray
    rows: Rows
    written: Callable[[], object]

    def __init__(self, key: Any, shape: tuple[int, ...], dtype: np.dtype) -> None:
        super().__init__(key)
        self.shape = shape
        self.dtype = dtype

    def put(self, row: int, value: Any) -> None:
        if type(value) is not np.ndarray and not isinstance(value, (np.ndarray, np.generic)):
            value = _as_array(self.key, value)
        if value.shape != self.shape:
            raise _UnlikeError(
                f"has shape {value.shape} in component {self.key!r}, and the batch began with {self.shape}; "
                f"{_USE_LIST}"
            )
        if value.dtype is not self.dtype and value.dtype != self.dtype:
            raise _UnlikeError(
                f"has dtype {value.dtype} in component {self.key!r}, and the batch began with {self.dtype}; "
                f"{_USE_LIST}"
            )
        self.rows[row] = value

    def finish(self, count: int) -> np.ndarray:
        self.written()
        return self.buffer if count == len(self.buffer) else self.buffer[:count]


def _column_for(key: Any, value: Any) -> _Column:
    """The column that fits the first value of a component."""
    for kind in (str, bytes):
        if isinstance(value, kind):
            return _Objects(key, kind)
    if not isinstance(value, (np.ndarray, np.generic)):
        number = _kind_of(value)
        if number is not None:
            return _Scalars(key, number)
        value = _as_array(key, value)
    return _Arrays(key, value.shape, value.dtype)


def _kind_of(value: Any) -> type | None:
    """Which of Python's number types `value` is; NumPy's, which inherit from them, are none."""
    if isinstance(value, np.generic):
        return None
    return next((kind for kind in (bool, int, float, complex) if isinstance(value, kind)), None)


def _as_array(key: Any, value: Any) -> np.ndarray:
    """A list of numbers as an array; nothing else is guessed at."""
    array = None
    if isinstance(value, (list, tuple)):
        try:
            array = np.asarray(value)
        except ValueError:  # a ragged list
            array = None
    if array is None or array.dtype.kind not in "biufc":
        raise _UnlikeError(
            f"has {_short(value)} in component {key!r}; a batch holds arrays, numbers, strings and bytes; "
            f"{_USE_LIST}"
        )
    return array


def _other_type(key: Any, value: Any, before: str) -> str:
    return f"has {_short(value)} in component {key!r}, and the batch began with {before}; {_USE_LIST}"


def _short(value: Any) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 40 else text[:37] + '...'}"


def _outline(datapoint: Any) -> str:
    if isinstance(datapoint, (list, tuple, dict)):
        return _outline_of(type(datapoint), list(datapoint))
    return _short(datapoint)


def _outline_of(kind: type, keys: list[Any]) -> str:
    if issubclass(kind, dict):
        return f"a dict with the keys {keys!r}"
    return f"a {kind.__name__} of {len(keys)} components"
