"""Resume marks of parallel flows with skipped or unordered datapoints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Self, TypeVar, final

from ..flow._epoch import Epoch
from ..flow._resume_marks import Mark

__all__ = ["IndexRange", "SkippingMark", "UnorderedMark", "first_gap", "own_key", "own_mark", "with_range"]

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
