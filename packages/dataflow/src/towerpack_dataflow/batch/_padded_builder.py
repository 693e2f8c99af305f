"""`PaddedBuilder`: stacks arrays of different shapes, with padding."""

from __future__ import annotations

from typing import Any, final

import numpy as np

from .._errors import BatchError
from ._buffer_pool import BatchAllocator
from ._component_builders import ComponentBuilder
from ._exact_arrays import UnlikeError, as_array

__all__ = ["PaddedBuilder", "Sizes"]

Sizes = tuple[int | None, ...]
"""The length of each axis; `None` for the length of the longest value in the batch."""


@final
class PaddedBuilder(ComponentBuilder):
    """Collects the arrays of one component, and copies them into one padded array.

    Args:
        key: key of the component.
        first: its first value; all values have its dtype and number of axes.
        sizes: the lengths of the axes; `None` if each is the length of the longest value.
        fill: the padding value.
        memory: allocates the batch.
    """

    def __init__(self, key: Any, first: Any, sizes: Sizes | None, fill: Any, memory: BatchAllocator) -> None:
        """Checks the number of axes.

        Raises:
            UnlikeError: the number of sizes differs from the number of axes.
        """
        super().__init__(key)
        array = as_array(key, first)
        self._dtype: np.dtype | None = None  # unknown for an empty list
        self._sizes = (None,) * array.ndim if sizes is None else sizes
        self._fill = fill
        self._memory = memory
        self._values: list[np.ndarray] = []
        if len(self._sizes) != array.ndim:
            raise UnlikeError(
                f"has shape {array.shape} in component {key!r}, and shapes= gives it {self._sizes}; set one "
                "length for each axis, None for that of the longest value"
            )

    def put(self, row: int, value: Any) -> None:
        """Adds a snapshot of the value.

        Raises:
            UnlikeError: the value has another dtype or number of axes, or is larger than its size.
        """
        array = as_array(self.key, value)
        if not array.size and isinstance(value, (list, tuple)):
            array = array.astype(self._dtype)  # an empty list has numbers of any type
        elif self._dtype is None:
            self._dtype = array.dtype
        if array.dtype != (self._dtype or array.dtype) or array.ndim != len(self._sizes):
            raise UnlikeError(
                f"has an array of {array.dtype} with {array.ndim} axes in component {self.key!r}, and the "
                f"batch began with {self._dtype} and {len(self._sizes)} axes; make them alike in a MapData "
                "below"
            )
        if any(size is not None and length > size for length, size in zip(array.shape, self._sizes)):
            raise UnlikeError(
                f"has shape {array.shape} in component {self.key!r}, which is larger than the {self._sizes} "
                "of shapes=; truncate it in a MapData below, or drop it with FilterData"
            )
        self._values.append(array.copy())  # its producer may write to it again

    def finish(self, count: int) -> np.ndarray:
        """Returns the padded array.

        Raises:
            BatchError: the dtype cannot represent the padding value.
        """
        longest = np.max([value.shape for value in self._values], axis=0, initial=0)
        shape = [int(most) if size is None else size for most, size in zip(longest, self._sizes)]
        dtype = np.dtype(np.float64) if self._dtype is None else self._dtype
        (batch,) = self._memory.allocate([((count, *shape), dtype)])
        for row, value in enumerate(self._values):
            if value.shape != batch.shape[1:]:
                self._fill_row(batch[row])
            batch[row][tuple([slice(length) for length in value.shape])] = value
        return batch

    def _fill_row(self, row: np.ndarray) -> None:
        if not _holds(row.dtype, self._fill):
            raise BatchError(
                f"cannot batch: {row.dtype} in component {self.key!r} does not hold values={self._fill!r}; "
                f"use a value that it holds, as values={{{self.key!r}: ...}} for this component alone, or "
                "another dtype in a MapData below"
            )
        row[...] = self._fill


def _holds(dtype: np.dtype, value: Any) -> bool:
    """Tells whether a dtype represents a value, apart from the rounding of floats."""
    one = np.empty((), dtype)
    try:
        with np.errstate(over="ignore"):
            one[...] = value
        if dtype.kind in "OV":
            return True
        if dtype.kind in "fc":
            return bool(np.isfinite(one) == np.isfinite(value))
        return bool(one == value) or (dtype.kind in "mM" and bool(np.isnat(one) and np.isnat(value)))
    except (OverflowError, TypeError, ValueError, DeprecationWarning):  # NumPy 1 warns where 2 raises
        return False
