"""`PadBatchData`: stacks datapoints of different shapes into batches, filled up with a value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, final

from .. import _argument_checks as arguments
from .._errors import ArgumentError, ArgumentTypeError
from ..flow._epoch import Epoch
from ..flow._error_location import blame
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
    """Stacks datapoints as `BatchData` does, and fills arrays up to one shape.

    An array becomes as long along each axis as the longest of its component in the batch, or as long as
    `shapes` says: XLA compiles a model for each shape, so give fixed ones there. Values stand at the
    beginning of each axis. Components without an axis are stacked as they are. A batch of empty lists alone
    is float64; give arrays where that may happen. Where the lengths are needed later, let a map below
    append them: `MapData(ds, lambda dp: [*dp, len(dp[0])])`. It is addressable if the flow below is.

    Args:
        ds: the flow below.
        batch_size: datapoints in a batch.
        remainder: whether a last, smaller batch is given, or its datapoints are left out.
        shapes: the shape of some components, by position or key, with None for axes of the longest value.
        values: what is filled in: one number for all components, or numbers by position or key.

    Raises:
        ArgumentError: `batch_size` is not an integer above 0, is larger than `ds` without `remainder`, or a
            shape is no list of lengths.
        ArgumentTypeError: `remainder` is not a boolean, or `shapes` is no dict.
        BatchError: datapoints do not stack, or one is larger than its shape; raised while iterating.

    Example:
        >>> import numpy as np
        >>> flow = PadBatchData([[np.array([1, 2, 3]), "a"], [np.array([4]), "b"]], 2, values=-1)
        >>> numbers, words = next(iter(flow))
        >>> numbers.tolist()
        [[1, 2, 3], [4, -1, -1]]
        >>> next(iter(PadBatchData([[np.array([1])]], 1, shapes={0: [4]})))[0].tolist()
        [[1, 0, 0, 0]]
    """

    _holds = ("ds",)

    def __init__(
        self,
        ds: Any,
        batch_size: int,
        remainder: bool = False,
        *,
        shapes: Mapping[Any, Sequence[int | None]] | None = None,
        values: Any = 0,
    ) -> None:
        """Checks the size against the length of `ds`, if that is known."""
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

    def _facts(self) -> dict[str, Any]:
        return {"batch_size": self._batch_size * hosts_of(self.ds), "remainder": self._remainder}

    def _datapoints(self, epoch: Epoch, start: int) -> Iterator[Any]:
        first = start * self._batch_size
        collator = Collator(self._batch_size, number=first, make=self._builder)
        try:
            for datapoint in self.ds._datapoints(self._below(epoch), first):
                collator.add(datapoint)
                del datapoint  # its memory is for the next one
                if collator.full:
                    yield collator.take()
            if self._remainder and collator.count:
                yield collator.take()
        except Exception as error:
            blame(error, self)
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
        """A copy has memory of its own."""
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
