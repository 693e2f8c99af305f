"""How long a pass is: `RepeatedData` and `FixedSizeData`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count, islice
from typing import TYPE_CHECKING, Any

from .. import _argument_checks as arguments
from .._errors import EmptyFlowError, UnknownLengthError
from ..flow._epoch import Epoch
from ..flow._flow import DataFlow
from ._proxy_flow import ProxyDataFlow

if TYPE_CHECKING:
    import numpy as np

    from ..batch._collate import Columns


class RepeatedData(ProxyDataFlow):
    """Several epochs of the flow below as one pass; shuffles differ between them.

    Args:
        ds: the flow below.
        num: how many; -1 for endless repetition.

    Raises:
        ArgumentError: if `num` is not an integer above 0, nor -1.
        EmptyFlowError: while iterating, if an endless repetition has nothing to repeat.

    Example:
        >>> list(RepeatedData([["a"], ["b"]], 2))
        [['a'], ['b'], ['a'], ['b']]
    """

    _passes_on = True
    _holds = ("ds",)

    def __init__(self, ds: Any, num: int) -> None:
        """Reads nothing yet."""
        super().__init__(ds)
        self._num = -1 if num == -1 else arguments.count("num", num, instead=", or -1 for endless repetition")

    def __len__(self) -> int:
        """Datapoints of all repetitions.

        Raises:
            UnknownLengthError: if the repetition is endless.
        """
        if self._num == -1:
            raise UnknownLengthError(
                f"{self._name()} is endless; fix the length of a pass with FixedSizeData(flow, size)"
            )
        return self._num * len(self.ds)

    @property
    def addressable(self) -> bool:
        """As the flow below, unless endless."""
        return self._num != -1 and self.ds.addressable

    def _datapoints(self, epoch: Epoch, start: int) -> Iterator[Any]:
        if self._num == -1:
            return _epochs(self, epoch.inner(), 0, None, start)
        first = int(epoch) * self._num
        return _epochs(self, epoch, first, first + self._num, start)

    def _datapoint(self, epoch: Epoch, index: int) -> Any:
        return _one(self, epoch, int(epoch) * self._num * len(self.ds) + index)

    def _columns(self) -> Columns | None:
        return self.ds._columns() if self.ds.addressable else None

    def _gather(self, epoch: Epoch, wanted: range, out: Sequence[np.ndarray]) -> None:
        if self._num == -1:
            _gather_epochs(self, epoch.inner(), wanted, out)
        else:
            offset = int(epoch) * self._num * len(self.ds)
            _gather_epochs(self, epoch, range(wanted.start + offset, wanted.stop + offset, wanted.step), out)

    def _name(self) -> str:
        return f"RepeatedData({self._num})"


class FixedSizeData(ProxyDataFlow):
    """Passes of a given length, out of a flow of any length.

    Where the flow below ends before the pass, its next epoch follows.

    Args:
        ds: the flow below.
        size: datapoints in a pass.
        keep_state: whether each pass goes on in `ds` where the one before had to end: 1, 2, 3 / 4, 5, 1 / …
            Else each begins anew in `ds`, with random numbers of its own.

    Raises:
        ArgumentError: if `size` is not an integer above 0.
        EmptyFlowError: while iterating, if `ds` gives nothing.

    Example:
        >>> flow = FixedSizeData([[1], [2], [3]], 2)
        >>> list(flow), list(flow)
        ([[1], [2]], [[3], [1]])
    """

    _passes_on = True
    _holds = ("ds",)

    def __init__(self, ds: Any, size: int, keep_state: bool = True) -> None:
        """Reads nothing yet."""
        super().__init__(ds)
        self._size = arguments.count("size", size)
        self._keep_state = keep_state

    def __len__(self) -> int:
        """The given size."""
        return self._size

    def _datapoints(self, epoch: Epoch, start: int) -> Iterator[Any]:
        place, offset = self._origin(epoch)
        return islice(_epochs(self, place, 0, None, offset + start), max(self._size - start, 0))

    def _datapoint(self, epoch: Epoch, index: int) -> Any:
        place, offset = self._origin(epoch)
        return _one(self, place, offset + index)

    def _columns(self) -> Columns | None:
        return self.ds._columns() if self.ds.addressable else None

    def _gather(self, epoch: Epoch, wanted: range, out: Sequence[np.ndarray]) -> None:
        place, offset = self._origin(epoch)
        _gather_epochs(self, place, range(wanted.start + offset, wanted.stop + offset, wanted.step), out)

    def _origin(self, epoch: Epoch) -> tuple[Epoch, int]:
        """The era of the child's epochs, and how many datapoints are out in it when the pass starts."""
        return (epoch, int(epoch) * self._size) if self._keep_state else (epoch.inner(), 0)

    def _name(self) -> str:
        return f"FixedSizeData({self._size})"


def _epochs(flow: ProxyDataFlow, epoch: Epoch, first: int, stop: int | None, start: int) -> Iterator[Any]:
    """Epochs `first`, `first + 1`, … of the child as one sequence, from its `start`-th datapoint on.

    The mark: era, `first`, the child's epoch and index, and what came in its epochs before that one.
    """
    child = flow.ds
    mark = _starting_point(child, epoch, first, start)
    for number in count(mark[2]):
        if stop is not None and number >= stop:  # a pass may be asked for from beyond its end
            return
        if not child.addressable:
            epoch.marks[epoch.key] = mark
        index, before = mark[3], mark[4]
        for mark[3], datapoint in enumerate(
            child._datapoints(flow._below(epoch, 0, number), index), index + 1
        ):
            if before + mark[3] > start:
                yield datapoint
        if stop is None and mark[3] == 0:
            raise EmptyFlowError(
                f"{flow._name()} repeats {child._name()}, which gave no datapoint in its epoch {number}"
            )
        mark[2:] = number + 1, 0, before + mark[3]


def _starting_point(child: DataFlow, epoch: Epoch, first: int, start: int) -> list[int]:
    """The mark to begin with: computed, remembered, or else the very beginning."""
    if child.addressable:
        size = len(child)
        past = start // size if size else 0
        return [epoch.era, first, first + past, start - past * size, past * size]
    mark = epoch.marks.get(epoch.key)
    if mark is not None and mark[:2] == [epoch.era, first] and mark[4] + mark[3] <= start:
        return mark
    return [epoch.era, first, first, 0, 0]


def _one(flow: ProxyDataFlow, epoch: Epoch, index: int) -> Any:
    number, offset = divmod(index, len(flow.ds))
    return flow.ds._datapoint(flow._below(epoch, 0, number), offset)


def _gather_epochs(flow: ProxyDataFlow, epoch: Epoch, wanted: range, out: Sequence[np.ndarray]) -> None:
    """Gathers from epochs of the child counted through, epoch by epoch."""
    size = len(flow.ds)
    done = 0
    while done < len(wanted):
        number, first = divmod(wanted[done], size)
        part = range(first, min(first + (len(wanted) - done) * wanted.step, size), wanted.step)
        rows = [buffer[done : done + len(part)] for buffer in out]
        flow.ds._gather(flow._below(epoch, 0, number), part, rows)
        done += len(part)
