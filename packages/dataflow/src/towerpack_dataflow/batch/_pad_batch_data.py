"""`PadBatchData`: stacks datapoints of different shapes into padded batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, final

from .. import _argument_checks as arguments
from .._errors import ArgumentError, ArgumentTypeError
from ..flow._epoch import Epoch
from ..flow._user_code import record_origin
from ..flow.provenance import Origin
from ..operators._proxy_flow import ProxyDataFlow
from ._batch_data import checked_batch_size
from ._buffer_pool import BufferPool
from ._collate import Collator
from ._component_builders import ComponentBuilder, builder_for
from ._host_share import hosts_of
from ._padded_builder import PaddedBuilder, Sizes

__all__ = ["PadBatchData"]


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
        try:
            for datapoint in self.ds._datapoints(self._below(epoch), first):
                collator.add(datapoint)
                del datapoint  # frees its memory for the next one
                if collator.full:
                    yield collator.take()
            if self._remainder and collator.count:
                yield collator.take()
        except Exception as error:
            record_origin(error, self)
            raise

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
