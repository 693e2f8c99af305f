"""`DataFromArrays`: rows of arrays as datapoints."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .._errors import ArgumentError, ArgumentTypeError
from ..flow._columns import Columns, Field, assembled, numbers_array
from ..flow._epoch import Epoch
from ..flow._node import Effect
from ._from_iterable import DataFromList

__all__ = ["ArrayRows", "DataFromArrays", "common_length", "kind_and_keys", "only_values"]

_WITHOUT_MEANING = frozenset({np.ndarray, np.memmap, np.matrix, np.recarray})

_STACKABLE = "biufcmMV"


class DataFromArrays(DataFromList):
    """Yields the rows of arrays: row *i* of each array is datapoint *i*; addressable.

    For data that fit into memory, or lie in a file that `numpy.load(..., mmap_mode="r")` maps, or in chunks
    like the arrays of zarr, which are read on access. A `BatchData` directly above it, or with only
    `RepeatedData`, `FixedSizeData` and `ShardData` between, gathers the rows of a batch in one call per array
    without making datapoints, mostly without the interpreter's lock (`benchmarks/RESULTS.md` has figures).

    Args:
        components: a list, tuple or dict of arrays or tensors with equal lengths along the first axis.
            Datapoints have its type. They are copies of rows, with their masks for masked arrays, and NumPy
            scalars for arrays with one axis. A list, tuple or range of Python numbers (or strings) may
            replace an array: its members are yielded unchanged.
        shuffle: whether each epoch has a different order.

    Raises:
        ArgumentError: `components` is empty, or the components differ in length.
        ArgumentTypeError: a component is neither an array nor a list.

    Example:
        >>> from towerpack_dataflow import BatchData
        >>> flow = DataFromArrays([np.arange(6.0).reshape(3, 2), [7, 8, 9]], shuffle=False)
        >>> next(iter(flow))
        [array([0., 1.]), 7]
        >>> rows, numbers = next(iter(BatchData(flow, 3)))
        >>> rows.shape, numbers.dtype
        ((3, 2), dtype('int32'))
    """

    _lst: ArrayRows
    effect = Effect(steady=True)

    def __init__(self, components: Any, shuffle: bool = True) -> None:
        """Stores references to the arrays, not copies."""
        rows: Any = components if isinstance(components, ArrayRows) else ArrayRows(components)
        super().__init__(rows, shuffle)
        self._components = rows  # for `repr`, as in other sources

    def _columns(self) -> Columns | None:
        return self._lst.columns(self._gathered)

    def _gathered(self, epoch: Epoch, wanted: range, out: Sequence[np.ndarray]) -> None:
        self._lst.gather(self._order(epoch).indices(wanted) if self._shuffle else wanted, out)


def kind_and_keys(components: Any, flow: str) -> tuple[type[Any], list[Any]]:
    """Returns the type of a flow's datapoints, and the keys of their components.

    Args:
        components: a list, tuple or dict of arrays.
        flow: the flow's name, for messages.

    Raises:
        ArgumentTypeError: `components` is something else.
    """
    if isinstance(components, Mapping):
        return dict, list(components)
    if isinstance(components, (list, tuple)):
        return type(components), list(range(len(components)))
    raise ArgumentTypeError(
        f"{flow} takes a list, tuple or dict of arrays, one for each component; "
        f"received {type(components).__name__}"
    )


def common_length(lengths: Mapping[Any, int], flow: str) -> int:
    """Returns the length that all components have.

    Args:
        lengths: the length of each component, by key.
        flow: the flow's name, for messages.

    Raises:
        ArgumentError: the components differ in length, or there are none.
    """
    if len(set(lengths.values())) != 1:
        found = ", ".join(f"{length} in {key!r}" for key, length in lengths.items()) or "no component"
        raise ArgumentError(f"{flow} takes components of one length; received {found}")
    return next(iter(lengths.values()))


class ArrayRows(Sequence[Any]):
    """A sequence of datapoints over components."""

    def __init__(self, components: Any) -> None:
        kind, keys = kind_and_keys(components, "DataFromArrays")
        self._kind = kind
        self._components = [_Component(key, components[key]) for key in keys]
        lengths = {component.key: len(component) for component in self._components}
        self._length = common_length(lengths, "DataFromArrays")
        self.__qualname__ = f"{kind.__name__} of {len(components)} of length {self._length}"

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: Any) -> Any:
        keys = [component.key for component in self._components]
        return assembled(self._kind, keys, [component.row(index) for component in self._components])

    def columns(self, gather: Callable[[Epoch, range, Sequence[np.ndarray]], None]) -> Columns | None:
        fields = [component.field() for component in self._components]
        if not self._length or None in fields:
            return None
        keys = [component.key for component in self._components]
        integers = any(component.integers for component in self._components)
        return Columns(self._kind, keys, [field for field in fields if field is not None], gather, integers)

    def gather(self, rows: range | np.ndarray, out: Sequence[np.ndarray]) -> None:
        for component, target in zip(self._components, out):
            component.gather(rows, target)


class _Component:
    """One array, or a list of Python values, with the array used for batches."""

    def __init__(self, key: Any, values: Any) -> None:
        self.key = key
        self.values: Any
        self._array: np.ndarray | None
        self._stored = _is_stored(values)
        if self._stored:
            self._array, self.values = None, values
        elif hasattr(values, "__array__") and getattr(values, "ndim", False):
            array = values if isinstance(values, np.ndarray) else np.asarray(values)  # a tensor, for example
            self._array = np.asarray(array) if only_values(array) else None
            self.values = array if self._array is None else self._array  # with its mask, for example
        elif isinstance(values, (list, tuple, range)):
            self.values = values
            self._array = _as_batched(values)
        else:
            raise ArgumentTypeError(
                f"component {key!r} of DataFromArrays is "
                f"{'an array without axes' if isinstance(values, np.ndarray) else type(values).__name__}; "
                "give an array with the datapoints along its first axis (numpy.asarray makes one), or a list"
            )

    @property
    def integers(self) -> bool:
        """Whether the values are Python's integers."""
        return isinstance(self.values, (list, tuple, range)) and type(self.values[0]) is int

    def __len__(self) -> int:
        return int(self.values.shape[0]) if self._stored else len(self.values)

    def row(self, index: int) -> Any:
        value = self.values[index]
        return value.copy() if isinstance(value, np.ndarray) else value

    def field(self) -> Field | None:
        """Returns shape and dtype of a row in a batch; `None` if they depend on the rest of the batch."""
        array = self.values if self._stored else self._array
        if array is None or array.dtype.hasobject or array.dtype.kind not in _STACKABLE:
            return None
        return array.shape[1:], array.dtype

    def gather(self, rows: range | np.ndarray, out: np.ndarray) -> None:
        if self._stored:
            array = getattr(self.values, "oindex", self.values)
            out[...] = array[slice(rows.start, rows.stop, rows.step) if isinstance(rows, range) else rows]
            return
        array = self._array
        assert array is not None
        if isinstance(rows, range):
            out[...] = array[rows.start : rows.stop : rows.step]
        elif array.flags.c_contiguous and array.flags.aligned:
            # Rows are in range, and "raise" would build the batch in a buffer first. The function numpy.take
            # costs three times as much as the method.
            array.take(rows, 0, out, "clip")
        else:
            out[...] = array[rows]  # take() would make a contiguous copy of the whole array


def _is_stored(values: Any) -> bool:
    """Tells whether a component is like an array, with rows that are read on access, as those of zarr."""
    if not getattr(values, "shape", ()) or not isinstance(getattr(values, "dtype", None), np.dtype):
        return False
    return hasattr(values, "oindex") or not hasattr(values, "__array__")


def _as_batched(values: Sequence[Any]) -> np.ndarray | None:
    """Returns Python numbers as an array, if a batch can hold all of them."""
    kinds = set(map(type, values))
    return numbers_array(kinds.pop(), values) if len(kinds) == 1 else None


def only_values(array: np.ndarray) -> bool:
    """Tells whether an array loses nothing by dropping its class: no mask, no unit, no attributes.

    NumPy's own subclasses are accepted; masked arrays only if nothing is masked.
    """
    if isinstance(array, np.ma.MaskedArray):
        return not np.any(np.ma.flatten_mask(np.ma.getmaskarray(array)))
    return type(array) in _WITHOUT_MEANING
