"""Logs of delivered datapoints in a pass, with the marks from which a later pass resumes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Self, TypeVar, final

from ..flow._epoch import Epoch
from ..flow._resume_marks import Mark
from ..operators._map_data import FilterMark

if TYPE_CHECKING:
    from ..flow._resume_marks import Marks
    from .worker._task_handler import TaskResult

__all__ = [
    "DeliveryLog",
    "IndexRange",
    "MapDeliveryLog",
    "OrderedLog",
    "OrderedMapLog",
    "SkippingLog",
    "SkippingMark",
    "UnorderedLog",
    "UnorderedMapLog",
    "UnorderedMark",
    "first_gap",
    "own_key",
    "own_mark",
    "with_range",
]


class DeliveryLog(ABC):
    """The log of one pass of a runner.

    Attributes:
        start: the first datapoint to make.
        done: later ranges already delivered to the consumer.
    """

    def __init__(self, start: int, done: list[IndexRange]) -> None:
        """Resumes at `start`."""
        self.start = start
        self.done = done

    @abstractmethod
    def enter(self, result: TaskResult) -> int:
        """Records the next datapoints; returns the number of them already delivered."""

    @abstractmethod
    def leave(self) -> None:
        """Records that all of them are delivered."""


@final
class OrderedLog(DeliveryLog):
    """The log of a pass in order without gaps; its position is the number of datapoints."""

    def __init__(self, start: int) -> None:
        """Resumes at `start`."""
        super().__init__(start, [])

    def enter(self, result: TaskResult) -> int:
        """Returns 0; see `DeliveryLog`."""
        return 0

    def leave(self) -> None:
        """Does nothing; see `DeliveryLog`."""


@final
class SkippingLog(DeliveryLog):
    """The log of a pass in which errors leave gaps."""

    def __init__(self, epoch: Epoch, start: int) -> None:
        """Resumes at the mark in `epoch`; at the beginning if there is no mark up to `start`."""
        self._mark = mark = own_mark(SkippingMark, epoch)
        if mark.given > start:
            mark.given = mark.dealt_with = 0
        super().__init__(mark.dealt_with, [])
        self._unseen = start - mark.given
        self._next = mark.given, mark.dealt_with

    def enter(self, result: TaskResult) -> int:
        """See `DeliveryLog`."""
        made = result.end - result.begin - len(result.skipped)
        self._next = self._mark.given + made, result.end
        unseen = min(self._unseen, made)
        self._unseen -= unseen
        return unseen

    def leave(self) -> None:
        """See `DeliveryLog`."""
        self._mark.given, self._mark.dealt_with = self._next


@final
class UnorderedLog(DeliveryLog):
    """The log of a pass without order."""

    def __init__(self, epoch: Epoch, start: int) -> None:
        """Resumes at the mark in `epoch`; without a mark for `start`, the datapoints so far were in order."""
        self._mark = mark = own_mark(UnorderedMark, epoch)
        if not 0 <= start - mark.given <= mark.end - mark.begin:
            mark.restart(start)
        done = with_range(mark.done, (mark.begin, mark.begin + start - mark.given))
        super().__init__(first_gap(done), done)
        self._write()

    def enter(self, result: TaskResult) -> int:
        """See `DeliveryLog`."""
        self._mark.begin, self._mark.end = result.begin, result.end
        return 0

    def leave(self) -> None:
        """See `DeliveryLog`."""
        self.done = with_range(self.done, (self._mark.begin, self._mark.end))
        self._write()

    def _write(self) -> None:
        mark = self._mark
        mark.given = sum(end - begin for begin, end in self.done)
        mark.begin = mark.end = 0
        mark.done = self.done


class MapDeliveryLog(ABC):
    """The log of one pass of a parallel map, which may drop inputs.

    Attributes:
        start: the first input to read below.
        done: later ranges already processed.
        of_map: the mark from which a `MapData` would resume here, or earlier.
    """

    def __init__(self, start: int, done: list[IndexRange], of_map: FilterMark) -> None:
        """Resumes at `start`."""
        self.start = start
        self.done = done
        self.of_map = of_map

    @abstractmethod
    def enter(self, result: TaskResult) -> Marks:
        """Records the next inputs; returns the marks of the flows below for a state."""

    @abstractmethod
    def step(self, dropped: bool) -> bool:
        """Records one more input; returns whether its datapoint goes to the consumer."""

    @abstractmethod
    def leave(self, result: TaskResult) -> None:
        """Records that the datapoints of all these inputs are delivered."""


@final
class OrderedMapLog(MapDeliveryLog):
    """The log of a map's pass in order; it has the mark of a `MapData`."""

    def __init__(self, mark: FilterMark, start: int) -> None:
        """Resumes at the mark; datapoints delivered since then are made again."""
        super().__init__(mark.read, [], mark)
        self._mark = mark
        self._wanted = start

    def enter(self, result: TaskResult) -> Marks:
        """See `MapDeliveryLog`."""
        return result.marks or {}

    def step(self, dropped: bool) -> bool:
        """See `MapDeliveryLog`."""
        mark = self._mark
        mark.read += 1
        mark.given += not dropped
        return not dropped and mark.given > self._wanted

    def leave(self, result: TaskResult) -> None:
        """See `MapDeliveryLog`."""
        self._mark.read = result.end


@final
class UnorderedMapLog(MapDeliveryLog):
    """The log of a map's pass without order."""

    def __init__(self, epoch: Epoch, start: int) -> None:
        """Resumes at the mark in `epoch`; without one for `start`, all was in order and nothing dropped."""
        self._mark = mark = own_mark(UnorderedMark, epoch)
        if mark.given != start:
            mark.restart(start)
        done = with_range(mark.done, (mark.begin, mark.end))
        super().__init__(first_gap(done), done, FilterMark(epoch.outer_epoch, int(epoch)))
        self._marks: dict[int, Marks] = {}
        self._write()

    @staticmethod
    def knows(epoch: Epoch, start: int) -> bool:
        """Tells whether the mark in `epoch` identifies the inputs of the first `start` datapoints."""
        return own_mark(UnorderedMark, epoch).given == start

    def enter(self, result: TaskResult) -> Marks:
        """See `MapDeliveryLog`; a later pass resumes reading at the first unprocessed input."""
        self._mark.begin = self._mark.end = result.begin
        self._marks[result.begin] = result.marks or {}
        gap = first_gap(self.done)
        known = sorted(begin for begin in self._marks if begin <= gap)
        for begin in known[:-1]:
            del self._marks[begin]
        # Includes marks of later inputs where there are no others: they show that a flow below drops
        # datapoints.
        merged: Marks = {}
        for begin in sorted(self._marks, reverse=True):
            merged |= self._marks[begin]
        return merged

    def step(self, dropped: bool) -> bool:
        """See `MapDeliveryLog`."""
        self._mark.end += 1
        self._mark.given += not dropped
        return not dropped

    def leave(self, result: TaskResult) -> None:
        """See `MapDeliveryLog`."""
        self.done = with_range(self.done, (result.begin, result.end))
        self._write()

    def _write(self) -> None:
        mark = self._mark
        mark.begin = mark.end = 0
        mark.done = self.done


IndexRange = tuple[int, int]
"""Datapoints from the first number up to, excluding, the second."""


@final
class SkippingMark(Mark):
    """The progress of a pass in which errors leave gaps.

    Attributes:
        given: number of delivered datapoints.
        dealt_with: number of datapoints of the flow below for them, including skipped ones.
    """

    __slots__ = ("dealt_with", "given")

    fields = ("outer_epoch", "epoch", "given", "dealt_with")

    def __init__(self, outer_epoch: int, epoch: int) -> None:
        """Creates a mark at the beginning of an epoch."""
        super().__init__(outer_epoch, epoch)
        self.given = self.dealt_with = 0


@final
class UnorderedMark(Mark):
    """The progress of a pass without order; its list ends with the starts and ends of `done`.

    Attributes:
        given: number of delivered datapoints: of a map now, else at the start of the current range.
        begin, end: the range being delivered; for a map, up to the next input.
        done: completely delivered ranges, in order.
    """

    __slots__ = ("begin", "done", "end", "given")

    fields = ("outer_epoch", "epoch", "given", "begin", "end", "done")
    _PLAIN = len(fields) - 1

    def __init__(self, outer_epoch: int, epoch: int) -> None:
        """Creates a mark at the beginning of an epoch."""
        super().__init__(outer_epoch, epoch)
        self.done: list[IndexRange] = []
        self.given = self.begin = self.end = 0

    @classmethod
    def from_list(cls, numbers: Iterable[int] | None) -> Self | None:
        """Returns the mark with these `numbers`; `None` if they are not a mark of this class."""
        if numbers is None or isinstance(numbers, cls):
            return numbers
        values = list(numbers)
        if len(values) < cls._PLAIN:
            return None
        mark = cls(*values[:2])
        mark.given, mark.begin, mark.end = values[2 : cls._PLAIN]
        done = values[cls._PLAIN :]
        mark.done = list(zip(done[::2], done[1::2]))
        return mark

    def __iter__(self) -> Iterator[int]:
        """Yields the integers of a state."""
        yield from (self.outer_epoch, self.epoch, self.given, self.begin, self.end)
        for index_range in self.done:
            yield from index_range

    def restart(self, given: int) -> None:
        """Marks a pass with exactly the first `given` datapoints delivered."""
        self.given, self.begin, self.end = given, 0, 0
        self.done = [(0, given)]


M = TypeVar("M", SkippingMark, UnorderedMark)


def own_key(epoch: Epoch) -> str:
    """Returns the key of a parallel flow's mark, next to that of the flow below, which has the same place."""
    return f"{epoch.key}*"


def own_mark(kind: type[M], epoch: Epoch) -> M:
    """Returns a parallel flow's mark in `epoch`; a new one if `epoch` has none of this kind and pass."""
    key = own_key(epoch)
    mark = kind.from_list(epoch.marks.get(key))
    if mark is None or not mark.belongs_to(epoch.outer_epoch, epoch):
        mark = kind(epoch.outer_epoch, int(epoch))
    epoch.marks[key] = mark
    return mark


def with_range(index_ranges: list[IndexRange], other: IndexRange) -> list[IndexRange]:
    """Adds a range to others; sorts them and merges adjacent ones.

    Example:
        >>> with_range([(0, 3), (5, 7)], (3, 5))
        [(0, 7)]
    """
    found: list[IndexRange] = []
    for begin, end in sorted([*index_ranges, other]):
        if begin == end:
            continue
        if found and found[-1][1] == begin:
            found[-1] = found[-1][0], end
        else:
            found.append((begin, end))
    return found


def first_gap(done: list[IndexRange]) -> int:
    """Returns the first datapoint outside all ranges.

    Example:
        >>> first_gap([(0, 3), (5, 7)]), first_gap([(5, 7)])
        (3, 0)
    """
    return done[0][1] if done and done[0][0] == 0 else 0
