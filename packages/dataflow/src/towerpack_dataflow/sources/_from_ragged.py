"""`DataFromRagged`: arrays of different lengths, one after the other in a large one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar, final

import numpy as np

from .._errors import ArgumentError, ArgumentTypeError
from ..flow._columns import assembled
from ..flow._node import Effect
from ._from_arrays import common_length, kind_and_keys, only_values
from ._from_iterable import DataFromList

__all__ = ["DataFromRagged", "RaggedRows", "takes_ragged_rows", "with_ragged_rows"]

_Collate = TypeVar("_Collate", bound=Callable[..., Any])


@final
class DataFromRagged(DataFromList):
    """Yields the parts of long arrays: datapoint *i* is `values[offsets[i]:offsets[i + 1]]`; addressable.

    For documents of tokens, one after the other in an array in memory or in a file that
    `numpy.load(..., mmap_mode="r")` or `numpy.memmap` maps. A `BatchByBudget`, `BucketData` or `PackData`
    directly above it with `collate=pad` or `collate=ragged` copies the parts of a batch without making
    datapoints (`benchmarks/RESULTS.md` has figures).

    Args:
        values: a list, tuple or dict of arrays with equal lengths along the first axis. Datapoints have its
            type, and are copies.
        offsets: the start of each datapoint in the arrays, ascending from 0, and their length as the last: an
            array of integers with one entry more than datapoints, as in PyTorch's and Arrow's ragged arrays.
        shuffle: whether each epoch has a different order. The flows above shuffle themselves, and need False.
        dtype: the dtype of all components; by default that of their array.

    Raises:
        ArgumentError: `values` is empty, its arrays differ in length, or `offsets` do not divide them.
        ArgumentTypeError: a component is not an array, or `offsets` are not integers.

    Example:
        >>> from towerpack_dataflow import BatchByBudget
        >>> from towerpack_dataflow.interop.collate import pad
        >>> tokens = np.array([5, 6, 7, 8, 9, 4], np.uint16)
        >>> texts = DataFromRagged({"ids": tokens}, [0, 3, 5, 6], shuffle=False, dtype=np.int64)
        >>> next(iter(texts))
        {'ids': array([5, 6, 7])}
        >>> flow = BatchByBudget(texts, texts.lengths, max_tokens=6, shuffle=False, collate=pad)
        >>> next(iter(flow))["ids"].tolist()
        [[5, 6, 7], [8, 9, 0]]
    """

    _lst: _RaggedParts
    effect = Effect(steady=True)

    def __init__(self, values: Any, offsets: Any, shuffle: bool = True, dtype: Any = None) -> None:
        """Stores references to the arrays, not copies."""
        super().__init__(_RaggedParts(values, offsets, None if dtype is None else np.dtype(dtype)), shuffle)
        self._values = self._lst  # for `repr`, as in other sources

    @property
    def lengths(self) -> np.ndarray:
        """The length of each datapoint, by index; int64."""
        return np.diff(self._lst.offsets)

    def rows(self, numbers: list[int]) -> RaggedRows:
        """Returns the datapoints with these numbers in the arrays, whatever the order of an epoch is."""
        return RaggedRows(self._lst, numbers)


class _RaggedParts(Sequence[Any]):
    """A sequence of datapoints over components."""

    def __init__(self, values: Any, offsets: Any, dtype: np.dtype | None) -> None:
        self.kind, self.keys = kind_and_keys(values, "DataFromRagged")
        self._arrays = [_plain(key, values[key]) for key in self.keys]
        self._dtype = dtype
        lengths = {key: len(array) for key, array in zip(self.keys, self._arrays)}
        self.offsets = _checked(offsets, common_length(lengths, "DataFromRagged"))
        self.__qualname__ = f"{self.kind.__name__} of {len(values)} in {len(self)} parts"

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: Any) -> Any:
        if not -len(self) <= index < len(self):
            raise IndexError(f"index {index} is out of range of {len(self)} datapoints")
        parts = [
            part.copy() if self._dtype is None else part for (part,) in self.columns([index % len(self)])
        ]
        return assembled(self.kind, self.keys, parts)

    def columns(self, numbers: Sequence[int]) -> Iterator[list[np.ndarray]]:
        """Yields the parts of each component; they are not copied unless their dtype changes."""
        starts = self.offsets[numbers].tolist()
        stops = self.offsets[np.add(numbers, 1)].tolist()
        for array in self._arrays:
            parts = [array[start:stop] for start, stop in zip(starts, stops)]
            yield parts if self._dtype is None else [part.astype(self._dtype) for part in parts]


@final
class RaggedRows(Sequence[Any]):
    """Some datapoints of a `DataFromRagged`, which are made on access.

    Args:
        parts: all datapoints.
        numbers: the numbers of these ones.
    """

    def __init__(self, parts: _RaggedParts, numbers: list[int]) -> None:
        """Stores the numbers."""
        self._parts = parts
        self._numbers = numbers

    def __len__(self) -> int:
        """Returns the number of datapoints."""
        return len(self._numbers)

    def __getitem__(self, index: Any) -> Any:
        """Returns a datapoint."""
        return self._parts[self._numbers[index]]

    def joined(self, join: Callable[[str, list[np.ndarray]], Any]) -> Any:
        """Returns a batch, with each component made by `join` of its key and its arrays."""
        keys = self._parts.keys
        columns = zip(keys, self._parts.columns(self._numbers))
        return assembled(self._parts.kind, keys, [join(str(key), column) for key, column in columns])


def takes_ragged_rows(collate: _Collate) -> _Collate:
    """Marks a function for `collate=` that takes `RaggedRows`, too, instead of a list of datapoints."""
    collate._takes_ragged_rows = True  # type: ignore[attr-defined]
    return collate


def with_ragged_rows(flow: Any, collate: Any) -> DataFromRagged | None:
    """Returns `flow` if its datapoints need not be made, since `collate` takes `RaggedRows`; else `None`."""
    function = getattr(collate, "func", collate)  # of a functools.partial
    takes = isinstance(flow, DataFromRagged) and getattr(function, "_takes_ragged_rows", False)
    return flow if takes else None


def _plain(key: Any, values: Any) -> np.ndarray:
    array = values if isinstance(values, np.ndarray) else np.asarray(values)
    if not hasattr(values, "__array__") or not array.ndim or array.dtype.hasobject or not only_values(array):
        raise ArgumentTypeError(
            f"component {key!r} of DataFromRagged is an array of numbers with at least one axis, and without "
            f"masked values; received {type(values).__name__} of {array.dtype} with shape {array.shape}"
        )
    return np.asarray(array)  # a slice of a memmap costs ten times as much


def _checked(offsets: Any, length: int) -> np.ndarray:
    array = np.asarray(offsets)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ArgumentTypeError(
            f"offsets is a list or array of integers; received {array.dtype} of shape {array.shape}"
        )
    array = array.astype(np.int64)
    if not array.size or array[0] != 0 or array[-1] != length or (np.diff(array) < 0).any():
        found = f"{len(array)} from {array[0]} to {array[-1]}" if array.size else "none"
        raise ArgumentError(
            f"offsets ascend from 0 to {length}, the length of the arrays; received {found}. For the ends of "
            "datapoints, pass numpy.append(0, ends)"
        )
    return array
