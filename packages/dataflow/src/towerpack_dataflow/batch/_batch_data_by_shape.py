"""`BatchDataByShape`: batches datapoints with equal shapes."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any, final

from .. import _argument_checks as arguments
from .._errors import ArgumentTypeError, ComponentError, UnknownLengthError
from ..flow._epoch import Epoch
from ..flow._resume_marks import replayed
from ..flow._user_code import origin_of_errors
from ..operators._proxy_flow import ProxyDataFlow
from ._batch_division import hosts_of
from ._buffer_pool import BufferPool
from ._collate import Collator

__all__ = ["BatchDataByShape"]

Shape = tuple[int, ...]


@final
class BatchDataByShape(ProxyDataFlow):
    """Batches datapoints in which one component has the same shape; a stream of unknown length.

    A batch is yielded as soon as it is full. At the end of a pass incomplete batches are dropped, or with
    `remainder` yielded in the order of their first datapoints; none continues into the next pass.
    `PadBatchData` batches different shapes together.

    Args:
        ds: the flow below.
        batch_size: datapoints in a batch.
        idx: the component with the decisive shape: a position in a list or tuple, or a key of a dict.
        remainder: whether smaller batches are yielded at the end of a pass.

    Raises:
        ArgumentError: `batch_size` is not an integer above 0.
        ArgumentTypeError: `idx` cannot be a key, or `remainder` is not a boolean.
        ComponentError: a datapoint has no such component, or it is not an array; raised while iterating.
        BatchError: other components cannot be stacked; raised while iterating.

    Example:
        >>> import numpy as np
        >>> flow = BatchDataByShape([[np.zeros(length)] for length in (2, 3, 2, 3, 3)], 2, idx=0)
        >>> [rows.shape for (rows,) in flow]
        [(2, 2), (2, 3)]
    """

    def __init__(self, ds: Any, batch_size: int, idx: Hashable, remainder: bool = False) -> None:
        """Stores the arguments; reads nothing."""
        super().__init__(ds)
        self._batch_size = arguments.count("batch_size", batch_size)
        if not isinstance(idx, Hashable):
            raise ArgumentTypeError(f"idx is a position or a key of a dict; received {idx!r}")
        self._idx: Any = idx
        self._remainder = arguments.flag("remainder", remainder)

    def __len__(self) -> int:
        """Always raises: the number of batches depends on the shapes.

        Raises:
            UnknownLengthError: always.
        """
        raise UnknownLengthError._since(f"the number of batches of {self._name()} depends on the shapes")

    @property
    def addressable(self) -> bool:
        """Always false: the datapoints of a batch depend on all datapoints before it."""
        return False

    @property
    def fixed_batch_size(self) -> int | None:
        """The batch size; None if there may be smaller batches."""
        return None if self._remainder else self._batch_size

    def identity(self) -> dict[str, bool | int | str]:
        """Returns the size of a batch over all hosts, and whether smaller ones are yielded."""
        return {"batch_size": self._batch_size * hosts_of(self.ds), "remainder": self._remainder}

    def _datapoints(self, epoch: Epoch, start: int) -> Iterator[Any]:
        return replayed(self._name(), epoch, self._batches(epoch), start)

    def _batches(self, epoch: Epoch) -> Iterator[Any]:
        memory = BufferPool()
        groups: dict[Shape, Collator] = {}
        with origin_of_errors(self):
            for number, datapoint in enumerate(self.ds._datapoints(self._below(epoch), 0)):
                shape = self._shape(datapoint, number)
                collator = groups.get(shape)
                if collator is None:
                    collator = groups[shape] = Collator(self._batch_size, memory=memory)
                collator.expect(number)
                collator.add(datapoint)
                del datapoint  # frees its memory for the next one
                if collator.full:
                    del groups[shape]  # a rare shape needs no memory between its batches
                    yield collator.take()
            if self._remainder:
                yield from [collator.take() for collator in groups.values()]

    def _shape(self, datapoint: Any, number: int) -> Shape:
        try:
            component = datapoint[self._idx]
            shape: Shape = component.shape
        except (LookupError, TypeError, AttributeError) as error:
            raise ComponentError(
                f"BatchDataByShape needs an array as component {self._idx!r} of each datapoint; datapoint "
                f"{number} of the pass has none there. Convert it to an array in a MapDataComponent below"
            ) from error
        return shape

    def _name(self) -> str:
        return f"BatchDataByShape({self._batch_size})"
