"""Flows that change the length of a pass: `RepeatedData`, `FixedSizeData` and `RepeatedDataPoint`."""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from itertools import chain, islice, repeat
from typing import Any, final

import numpy as np

from .. import _argument_checks as arguments
from .._errors import ArgumentError, EmptyFlowError, UnknownLengthError
from ..flow._columns import Columns
from ..flow._epoch import Epoch
from ..flow._node import Effect
from ..flow._resume_marks import Mark, Replay
from ..flow._trace import Origin
from ..flow._tree_fingerprint import known_length
from ..flow._user_code import copy_container
from ._proxy_flow import ProxyDataFlow

__all__ = ["FixedSizeData", "RepeatMark", "RepeatedData", "RepeatedDataPoint"]


_OR_ENDLESS = ", or -1 for endless repetition"


@final
class RepeatMark(Mark):
    """The progress of a repetition in a pass.

    Args:
        outer_epoch: outer epoch of the pass.
        epoch: number of the child's epoch at the start of the pass.
        number: number of the child's current epoch.
        index: number of datapoints yielded in that epoch.
        before: number of datapoints yielded in earlier epochs of this pass.
    """

    __slots__ = ("before", "index", "number")

    fields = ("outer_epoch", "epoch", "number", "index", "before")

    def __init__(self, outer_epoch: int, epoch: int, number: int, index: int = 0, before: int = 0) -> None:
        """Marks the beginning of epoch `number`, by default."""
        super().__init__(outer_epoch, epoch)
        self.number = number
        self.index = index
        self.before = before

    def next_epoch(self) -> None:
        """Moves to the child's next epoch."""
        self.before += self.index
        self.number += 1
        self.index = 0


class _JoinedEpochs(ProxyDataFlow):
    """Joins consecutive epochs of the flow below into passes."""

    effect = Effect(passes_on=True, steady=True)

    @abstractmethod
    def _place(self, epoch: Epoch) -> tuple[Epoch, int]:
        """Returns the epoch that counts the child's epochs, and the number of earlier datapoints in it."""

    def _datapoint(self, epoch: Epoch, index: int) -> Any:
        offset, below = self._found(epoch, index)
        return self.ds._datapoint(below, offset)

    def origins(self, epoch: Epoch, index: int) -> list[Origin]:
        """Returns the datapoint of the flow below, in one of its epochs."""
        offset, below = self._found(epoch, index)
        return [Origin(self.ds, offset, below)]

    def _found(self, epoch: Epoch, index: int) -> tuple[int, Epoch]:
        """Returns the index of a datapoint in the flow below, and its epoch there."""
        place, offset = self._place(epoch)
        number, index = divmod(offset + index, len(self.ds))
        return index, self._below(place, 0, number)

    def _columns(self) -> Columns | None:
        child = self.ds
        below = child._columns() if child.addressable else None
        if below is None:
            return None

        def gather(epoch: Epoch, wanted: range, out: Sequence[np.ndarray]) -> None:
            size, step, done = len(child), wanted.step, 0
            while done < len(wanted):
                first, place = self._found(epoch, wanted[done])
                part = range(first, min(first + (len(wanted) - done) * step, size), step)
                rows = [buffer[done : done + len(part)] for buffer in out]
                below.gather(place, part, rows)
                done += len(part)

        return below._replace(gather=gather)

    def _epochs(self, epoch: Epoch, first: int, stop: int | None, start: int) -> Iterator[Any]:
        """Yields the child's epochs `first`, `first + 1`, … as one sequence, from datapoint `start` on."""
        child = self.ds
        mark = self._starting_point(epoch, first, start)
        replay = Replay(self._name(), epoch, start - mark.before - mark.index)
        while stop is None or mark.number < stop:  # false at once if the start lies beyond the end
            if not child.addressable:
                epoch.marks[epoch.key] = mark
            datapoints = child._datapoints(self._below(epoch, 0, mark.number), mark.index)
            before = mark.before
            for index, datapoint in enumerate(datapoints, mark.index + 1):
                mark.index = index
                if before + index > start:
                    yield datapoint
                else:
                    replay.drop()
            if stop is None and mark.index == 0:
                raise EmptyFlowError(
                    f"{self._name()} repeats {child._name()}, which yielded no datapoint in epoch "
                    f"{mark.number}"
                )
            mark.next_epoch()

    def _starting_point(self, epoch: Epoch, first: int, start: int) -> RepeatMark:
        """Returns the mark to begin with: computed, from the state, or else the beginning."""
        if self.ds.addressable:
            size = len(self.ds)
            past = start // size if size else 0
            return RepeatMark(epoch.outer_epoch, first, first + past, start - past * size, past * size)
        mark = RepeatMark.from_list(epoch.marks.get(epoch.key))
        if mark is None or not mark.belongs_to(epoch.outer_epoch, first) or mark.before + mark.index > start:
            return RepeatMark(epoch.outer_epoch, first, first)
        return mark


class RepeatedData(_JoinedEpochs):
    """Joins several epochs of the flow below into one pass; each epoch has a different shuffle.

    Args:
        ds: the flow below.
        num: number of epochs; -1 for endless repetition.

    Raises:
        ArgumentError: `num` is neither an integer above 0 nor -1, or the pass would be longer than the
            largest possible length.
        EmptyFlowError: the flow of an endless repetition has no datapoints; raised while iterating.

    Example:
        >>> list(RepeatedData([["a"], ["b"]], 2))
        [['a'], ['b'], ['a'], ['b']]
    """

    def __init__(self, ds: Any, num: int) -> None:
        """Stores the arguments; reads nothing."""
        super().__init__(ds)
        endless = isinstance(num, (int, np.integer)) and num == -1
        self._num = -1 if endless else arguments.count("num", num, instead=_OR_ENDLESS)
        if self._num * (known_length(self.ds) or 0) > sys.maxsize:
            raise ArgumentError(
                f"num={num} repetitions of {len(self.ds)} datapoints are more than len() can return; take "
                "fewer, or -1 for endless repetition"
            )

    def __len__(self) -> int:
        """Returns the number of datapoints of all repetitions.

        Raises:
            UnknownLengthError: the repetition is endless.
        """
        if self._num == -1:
            raise UnknownLengthError(
                f"{self._name()} is endless; fix the length of a pass with FixedSizeData(flow, size)"
            )
        return self._num * len(self.ds)

    @property
    def endless(self) -> bool:
        """Whether the repetition is endless, or the flow below is."""
        return self._num == -1 or super().endless

    @property
    def addressable(self) -> bool:
        """Whether `datapoint(epoch, index)` works: as in the flow below, unless the repetition is endless."""
        return self._num != -1 and self.ds.addressable

    def _datapoints(self, epoch: Epoch, start: int) -> Iterator[Any]:
        if self._num == -1:
            return self._epochs(epoch.inner(), 0, None, start)
        first = int(epoch) * self._num
        return self._epochs(epoch, first, first + self._num, start)

    def _place(self, epoch: Epoch) -> tuple[Epoch, int]:
        return (epoch.inner(), 0) if self._num == -1 else (epoch, int(epoch) * self._num * len(self.ds))

    def _name(self) -> str:
        return f"RepeatedData({self._num})"


class FixedSizeData(_JoinedEpochs):
    """Yields passes of a given length from a flow of any length.

    If the flow below ends before the pass does, the pass continues with the next epoch.

    Args:
        ds: the flow below.
        size: datapoints in a pass.
        keep_state: whether each pass continues in `ds` where the last one ended: 1, 2, 3 / 4, 5, 1 / …
            Otherwise each starts at the beginning of `ds`, with different random numbers.

    Raises:
        ArgumentError: `size` is not an integer above 0.
        ArgumentTypeError: `keep_state` is not a boolean.
        EmptyFlowError: `ds` yields nothing; raised while iterating.

    Example:
        >>> flow = FixedSizeData([[1], [2], [3]], 2)
        >>> list(flow), list(flow)
        ([[1], [2]], [[3], [1]])
    """

    def __init__(self, ds: Any, size: int, keep_state: bool = True) -> None:
        """Stores the arguments; reads nothing."""
        super().__init__(ds)
        self._size = arguments.count("size", size)
        self._keep_state = arguments.flag("keep_state", keep_state)

    @property
    def endless(self) -> bool:
        """Always false: a pass has a fixed length."""
        return False

    def __len__(self) -> int:
        """Returns the given size."""
        return self._size

    def _datapoints(self, epoch: Epoch, start: int) -> Iterator[Any]:
        place, offset = self._place(epoch)
        return islice(self._epochs(place, 0, None, offset + start), max(self._size - start, 0))

    def _place(self, epoch: Epoch) -> tuple[Epoch, int]:
        if self._keep_state and not self.ds.live:  # earlier datapoints of a live flow do not count
            return epoch, int(epoch) * self._size
        return epoch.inner(), 0

    def _name(self) -> str:
        return f"FixedSizeData({self._size})"


@final
class RepeatedDataPoint(ProxyDataFlow):
    """Yields each datapoint of the flow below several times in a row; addressable if that flow is.

    The flow below makes it once. Each repetition has a copy of its list or dict, with the same arrays.

    Args:
        ds: the flow below.
        num: number of repetitions.

    Raises:
        ArgumentError: `num` is not an integer above 0.

    Example:
        >>> list(RepeatedDataPoint([["a"], ["b"]], 2))
        [['a'], ['a'], ['b'], ['b']]
    """

    effect = Effect(passes_on=True, steady=True)

    def __init__(self, ds: Any, num: int) -> None:
        """Stores the arguments; reads nothing."""
        super().__init__(ds)
        self._num = arguments.count("num", num)

    def __len__(self) -> int:
        """Returns the number of datapoints with repetitions."""
        return len(self.ds) * self._num

    def _datapoints(self, epoch: Epoch, start: int) -> Iterator[Any]:
        first, given = divmod(start, self._num)
        below = self.ds._datapoints(self._below(epoch), first)
        repeated = chain.from_iterable(map(repeat, below, repeat(self._num)))
        return map(copy_container, islice(repeated, given, None) if given else repeated)

    def _datapoint(self, epoch: Epoch, index: int) -> Any:
        return self.ds._datapoint(self._below(epoch), index // self._num)

    def origins(self, epoch: Epoch, index: int) -> list[Origin]:
        """Returns the repeated datapoint."""
        return [Origin(self.ds, index // self._num, self._below(epoch))]

    def _name(self) -> str:
        return f"RepeatedDataPoint({self._num})"
