"""`PadBatchData`: stacks datapoints of different shapes into padded batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, final

import numpy as np

from .. import _argument_checks as arguments
from .._errors import ArgumentError, ArgumentTypeError, BatchError
from ..flow._epoch import Epoch
from ..flow._trace import Origin
from ..flow._user_code import origin_of_errors
from ..operators._proxy_flow import ProxyDataFlow
from ._batch_division import checked_batch_size, hosts_of
from ._buffer_pool import BatchAllocator, BufferPool
from ._collate import Collator, ComponentBuilder, UnlikeError, as_array, builder_for

__all__ = ["PadBatchData", "PaddedBuilder", "Sizes"]


@final
class PadBatchData(ProxyDataFlow):
    """Stacks datapoints as `BatchData` does, and pads arrays to one shape.

    An array is padded along each axis to the longest one of its component in the batch, or to the length in
    `shapes`: XLA compiles a model for each shape, so set fixed ones there. Values stand at the beginning of
    each axis. Components without an axis are stacked unchanged. A batch of only empty lists is float64; use
    arrays where that may happen. If the lengths are needed later, append them in a map below: `MapData(ds,
    lambda dp: [*dp, len(dp[0])])`. The flow is addressable if the flow below is.

    Args:
        ds: the flow below.
        batch_size: datapoints in a batch.
        remainder: whether the last, smaller batch is yielded or dropped.
        shapes: the shape of some components, by position or key, with None for axes of the longest value.
        values: the padding value: one number for all components, or numbers by position or key.

    Raises:
        ArgumentError: `batch_size` is not an integer above 0, is larger than `ds` without `remainder`, or a
            shape is not a list of lengths.
        ArgumentTypeError: `remainder` is not a boolean, or `shapes` is not a dict.
        BatchError: datapoints cannot be stacked, or one is larger than its shape; raised while iterating.

    Example:
        >>> import numpy as np
        >>> flow = PadBatchData([[np.array([1, 2, 3]), "a"], [np.array([4]), "b"]], 2, values=-1)
        >>> numbers, words = next(iter(flow))
        >>> numbers.tolist()
        [[1, 2, 3], [4, -1, -1]]
        >>> next(iter(PadBatchData([[np.array([1])]], 1, shapes={0: [4]})))[0].tolist()
        [[1, 0, 0, 0]]
    """

    def __init__(
        self,
        ds: Any,
        batch_size: int,
        remainder: bool = False,
        *,
        shapes: Mapping[Any, Sequence[int | None]] | None = None,
        values: Any = 0,
    ) -> None:
        """Checks the size against the length of `ds`, if it is known."""
        super().__init__(ds)
        self._batch_size = checked_batch_size(self.ds, batch_size, remainder)
        self._remainder = remainder
        if not isinstance(shapes, (Mapping, type(None))):
            raise ArgumentTypeError(f"shapes is a dict of shapes by component; received {shapes!r}")
        self._shapes = {key: _sizes(key, shape) for key, shape in (shapes or {}).items()}
        self._values = dict(values) if isinstance(values, Mapping) else values
        self._memory = BufferPool()

    def __len__(self) -> int:
        """Returns the number of batches in a pass."""
        whole, rest = divmod(len(self.ds), self._batch_size)
        return whole + (self._remainder and rest > 0)

    @property
    def fixed_batch_size(self) -> int | None:
        """The batch size; None if there may be a smaller batch."""
        return None if self._remainder else self._batch_size

    def identity(self) -> dict[str, bool | int | str]:
        """Returns the size of a batch over all hosts, and whether smaller ones are yielded."""
        return {"batch_size": self._batch_size * hosts_of(self.ds), "remainder": self._remainder}

    def _datapoints(self, epoch: Epoch, start: int) -> Iterator[Any]:
        first = start * self._batch_size
        collator = Collator(self._batch_size, number=first, make=self._builder)
        with origin_of_errors(self):
            datapoints = iter(self.ds._datapoints(self._below(epoch), first))
            while collator.extend(datapoints, self._batch_size):
                yield collator.take()
            if self._remainder and collator.count:
                yield collator.take()

    def _datapoint(self, epoch: Epoch, index: int) -> Any:
        return next(self._datapoints(epoch, index), None)

    def origins(self, epoch: Epoch, index: int) -> list[Origin]:
        """Returns the datapoints of a batch."""
        first, below = index * self._batch_size, self._below(epoch)
        stop = min(first + self._batch_size, len(self.ds))
        return [Origin(self.ds, number, below) for number in range(first, stop)]

    def _builder(self, key: Any, value: Any) -> ComponentBuilder:
        arrays = isinstance(value, (list, tuple)) or getattr(value, "ndim", 0) > 0
        if not arrays and key not in self._shapes:
            return builder_for(key, value)
        fill = self._values.get(key, 0) if isinstance(self._values, dict) else self._values
        return PaddedBuilder(key, value, self._shapes.get(key), fill, self._memory)

    def __getstate__(self) -> dict[str, Any]:
        """Leaves out the memory; a copy allocates its own."""
        return {**super().__getstate__(), "_memory": BufferPool()}

    def _name(self) -> str:
        return f"PadBatchData({self._batch_size})"


def _sizes(key: Any, shape: Any) -> Sizes:
    if not isinstance(shape, (list, tuple)):
        raise ArgumentError(
            f"the shape of component {key!r} is a list of lengths, None for that of the longest value; "
            f"received {shape!r}"
        )
    return tuple(None if size is None else arguments.count(f"a length of {key!r}", size) for size in shape)


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
