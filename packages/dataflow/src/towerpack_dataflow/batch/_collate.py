"""`Collator`: builds batches from datapoints, one datapoint at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, final

import numpy as np

from .._errors import BatchError
from ..flow._columns import NUMBER_DTYPES, assembled, number_kind, stays_same
from ..sources._from_arrays import only_values
from ..storage import snapshot
from ._buffer_pool import BatchAllocator, Rows

__all__ = [
    "USE_LIST",
    "ArrayBuilder",
    "Collator",
    "ComponentBuilder",
    "ListBuilder",
    "UnlikeError",
    "as_array",
    "builder_for",
    "described",
]

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
        except (ValueError, OverflowError, np.ma.MaskError):  # ragged, beyond 64 bits, a masked integer
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


_Part = tuple[Any, Any, "tuple[int, ...] | None", "np.dtype | None", Rows, Callable[[int, Any], None]]
"""Key of a component; type, shape and dtype of the values that are assigned to rows; a method for others."""


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

    def _part(self) -> _Part:
        """Returns the way to add a value in the loop over datapoints, whose time is that of its calls."""
        return self.key, None, None, None, [], self.put

    @abstractmethod
    def finish(self, count: int) -> Any:
        """Returns the component of the batch: the first `count` values, of which there may be one more."""


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
        return self._values[:count]


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
        batch[:] = self._values[:count]
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
        return np.array(self._values[:count], NUMBER_DTYPES[self._kind])


@final
class ArrayBuilder(ComponentBuilder):
    """Copies arrays and NumPy scalars of one shape and dtype into one buffer.

    Args:
        key: key of the component.
        first: the first value, an array or a scalar.

    Attributes:
        shape: shape of each value.
        dtype: dtype of each value.
        buffer: the memory of the component, set by the collator before the first value.
        rows: the target of assignments: the buffer, or an object that copies into it.
        written: called after the last assignment.
    """

    buffer: np.ndarray
    rows: Rows
    written: Callable[[], object]

    def __init__(self, key: Any, first: np.ndarray | np.generic) -> None:
        """Creates a builder without a buffer."""
        super().__init__(key)
        self._type = type(first)
        self.shape: tuple[int, ...] = first.shape
        self.dtype: np.dtype = first.dtype

    def _part(self) -> _Part:
        if self._type is np.ndarray:
            return self.key, self._type, self.shape, self.dtype, self.rows, self.put
        # All scalars of a type of numbers have one dtype; those of other types, such as dates, may not.
        fixed = self.dtype.kind in "biufc" and issubclass(self._type, np.generic)
        return self.key, self._type if fixed else None, None, None, self.rows, self.put

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
    return ArrayBuilder(key, value)


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


@final
class Collator:
    """Builds successive batches from datapoints as they arrive.

    Each array is copied into the batch's buffer at once and released, so that its memory, still in the
    caches, serves the next one. Collecting the datapoints first and stacking them costs several times more.

    Args:
        size: datapoints in a full batch.
        use_list: whether each component is a list of unstacked values.
        memory: allocates the batches, perhaps in recycled or shared memory; new memory if `None`.
        number: index of the first datapoint in its pass, for error messages.
        make: returns the builder of a component for its key and first value; the usual one by default.

    Attributes:
        count: datapoints in the batch so far.
    """

    def __init__(
        self,
        size: int,
        use_list: bool = False,
        memory: BatchAllocator | None = None,
        number: int = 0,
        make: Callable[[Any, Any], ComponentBuilder] = builder_for,
    ) -> None:
        """Starts with an empty batch."""
        self._size = size
        self._memory = memory or BatchAllocator()
        self._number = number
        self._make = (lambda key, _: ListBuilder(key)) if use_list else make
        self._builders: list[ComponentBuilder] = []
        self._parts: list[_Part] = []
        self._kind: type[Any] = list
        self.count = 0

    @property
    def full(self) -> bool:
        """Whether the batch must be removed before the next datapoint."""
        return self.count == self._size

    def add(self, datapoint: Any) -> None:
        """Adds one datapoint to the batch.

        Raises:
            BatchError: the datapoint does not match those before it.
        """
        self.extend(iter((datapoint,)), self.count + 1)

    def offer(self, datapoint: Any) -> bool:
        """Adds the first datapoint of another batch if that batch would be built alike; returns whether."""
        if not self._begins_alike(datapoint):
            return False
        try:
            self.add(datapoint)
        except BatchError:
            return False
        return True

    def _begins_alike(self, datapoint: Any) -> bool:
        """Tells whether a batch from this datapoint on has the same order of keys and arrays of text."""
        if type(datapoint) is not self._kind or len(datapoint) != len(self._builders):
            return False
        keys = [builder.key for builder in self._builders]
        if isinstance(datapoint, dict) and [*datapoint] != keys:
            return False
        return not any(
            isinstance(builder, ArrayBuilder) and isinstance(datapoint[builder.key], (str, bytes))
            for builder in self._builders
        )

    def extend(self, datapoints: Iterator[Any], count: int) -> bool:
        """Adds datapoints up to a number of them in the batch; returns whether there were enough.

        Raises:
            BatchError: a datapoint does not match those before it.
            Exception: an error of the iterator.
        """
        row, outline, parts = self.count, self._kind, self._parts
        value: Any
        for datapoint in islice(datapoints, count - row):
            if row == 0:
                self._open(datapoint)
                outline, parts = self._kind, self._parts
            elif type(datapoint) is not outline or len(datapoint) != len(parts):
                raise self._other_outline(datapoint)
            try:
                for key, kind, shape, dtype, rows, put in parts:
                    value = datapoint[key]
                    if type(value) is not kind:
                        put(row, value)
                    elif shape is None or (value.dtype is dtype and value.shape == shape):
                        rows[row] = value
                    else:
                        put(row, value)
            except KeyError:
                raise self._other_outline(datapoint) from None
            except UnlikeError as error:
                raise self._unlike(str(error)) from None
            self.count = row = row + 1
            datapoint = value = None  # its memory is for the next one
        return row == count

    def expect(self, number: int) -> None:
        """Sets the index of the next datapoint in its pass, if it does not follow the last one."""
        self._number = number - self.count

    def take(self) -> Any:
        """Returns the batch, in the type of the datapoints; the next batch starts empty."""
        builders = self._builders
        values = [builder.finish(self.count) for builder in builders]
        self._number += self.count
        self._builders, self._parts = [], []
        self.count = 0
        return assembled(self._kind, [builder.key for builder in builders], values)

    def _open(self, datapoint: Any) -> None:
        """Creates builders and their memory for the first datapoint of a batch."""
        if not isinstance(datapoint, (list, tuple, dict)):
            raise self._unlike(
                f"is {_outline(datapoint)}; a datapoint to batch is a list, tuple or dict of components: "
                "wrap it in a MapData, as [it]"
            )
        self._kind = type(datapoint)
        keys: Iterable[Any] = datapoint if isinstance(datapoint, dict) else range(len(datapoint))
        try:
            self._builders = [self._make(key, datapoint[key]) for key in keys]
        except UnlikeError as error:
            raise self._unlike(str(error)) from None
        self._allocate([builder for builder in self._builders if isinstance(builder, ArrayBuilder)])
        self._parts = [builder._part() for builder in self._builders]

    def _allocate(self, builders: list[ArrayBuilder]) -> None:
        fields = [((self._size, *builder.shape), builder.dtype) for builder in builders]
        for builder, buffer in zip(builders, self._memory.allocate(fields)):
            builder.buffer = buffer
            builder.rows, builder.written = self._memory.rows(buffer)

    def _other_outline(self, datapoint: Any) -> BatchError:
        keys = [builder.key for builder in self._builders]
        began = _outline_of(self._kind, keys)
        return self._unlike(f"is {_outline(datapoint)}; the batch began with {began}")

    def _unlike(self, problem: str) -> BatchError:
        return BatchError(f"cannot batch: datapoint {self._number + self.count} of the pass {problem}")


def _outline(datapoint: Any) -> str:
    """Returns the type and the keys of a datapoint, for messages."""
    if isinstance(datapoint, (list, tuple, dict)):
        return _outline_of(type(datapoint), list(datapoint))
    return described(datapoint)


def _outline_of(kind: type, keys: list[Any]) -> str:
    if issubclass(kind, dict):
        return f"a dict with the keys {keys!r}"
    return f"a {kind.__name__} of {len(keys)} components"
