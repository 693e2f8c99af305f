"""`ConcatData`: concatenates flows."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any, final

from ...flow._epoch import Epoch
from ...flow._node import Effect
from ...flow._trace import Origin
from .._repeat import RepeatMark
from ._combined_flow import CombinedFlow

__all__ = ["ConcatData"]


@final
class ConcatData(CombinedFlow):
    """Yields the datapoints of several flows, one flow after another.

    It is addressable if all flows are. Resuming skips the flows already read to their end.

    Args:
        df_lists: the flows, in order.

    Raises:
        ArgumentTypeError: `df_lists` is not a list or tuple.
        ArgumentError: `df_lists` is empty.

    Example:
        >>> list(ConcatData([[["a"], ["b"]], [["c"]]]))
        [['a'], ['b'], ['c']]
    """

    effect = Effect(passes_on=True, steady=True)

    def __len__(self) -> int:
        """Returns the sum of the lengths.

        Raises:
            UnknownLengthError: the length of a flow is unknown.
        """
        return sum(len(flow) for flow in self.df_lists)

    def _datapoints(self, epoch: Epoch, start: int) -> Iterator[Any]:
        mark = self._starting_point(epoch, start)
        if self.addressable:
            return chain.from_iterable(self._parts(epoch, mark.number, mark.index))
        return self._counted(epoch, start, mark)

    def _parts(self, epoch: Epoch, first: int, index: int) -> Iterator[Iterator[Any]]:
        """Yields a pass over each flow from place `first` on; the first one from datapoint `index` on."""
        for place in range(first, len(self.df_lists)):
            yield self.df_lists[place]._datapoints(self._below(epoch, place), index)
            index = 0

    def _counted(self, epoch: Epoch, start: int, mark: RepeatMark) -> Iterator[Any]:
        """Runs a pass over streams of unknown length, and updates its mark."""
        while mark.number < len(self.df_lists):
            flow = self.df_lists[mark.number]
            epoch.marks[epoch.key] = mark
            before = mark.before
            datapoints = flow._datapoints(self._below(epoch, mark.number), mark.index)
            for index, datapoint in enumerate(datapoints, mark.index + 1):
                mark.index = index
                if before + index > start:
                    yield datapoint
            mark.next_epoch()

    def _datapoint(self, epoch: Epoch, index: int) -> Any:
        place, number = self._place(index)
        return self.df_lists[place]._datapoint(self._below(epoch, place), number)

    def origins(self, epoch: Epoch, index: int) -> list[Origin]:
        """Returns the datapoint of the flow at this index."""
        place, number = self._place(index)
        return [Origin(self.df_lists[place], number, self._below(epoch, place))]

    def _place(self, index: int) -> tuple[int, int]:
        """Returns the place of a datapoint's flow and its index there."""
        place = 0
        while index >= (length := len(self.df_lists[place])):
            index -= length
            place += 1
        return place, index

    def _starting_point(self, epoch: Epoch, start: int) -> RepeatMark:
        """Returns the mark to begin with, from the state or computed; its `number` is the flow's place."""
        mark = RepeatMark.from_list(epoch.marks.get(epoch.key))
        if mark is None or not mark.belongs_to(epoch.outer_epoch, epoch) or mark.before + mark.index > start:
            mark = RepeatMark(epoch.outer_epoch, int(epoch), 0)
        for flow in self.df_lists[mark.number :]:
            # A stream's length is declared by its author; only that of an addressable flow is certain.
            if not flow.addressable or mark.before + len(flow) > start:
                break
            mark.index = len(flow)
            mark.next_epoch()
        else:
            return mark
        if self.df_lists[mark.number].addressable:
            mark.index = start - mark.before
        return mark
