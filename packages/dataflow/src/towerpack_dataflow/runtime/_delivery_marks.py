"""Resume marks of parallel flows, where datapoints are left out or leave in no order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Self, TypeVar, final

from ..flow._epoch import Epoch
from ..flow._resume_marks import Mark

__all__ = ["SkippingMark", "Stretch", "UnorderedMark", "first_gap", "own_key", "own_mark", "with_stretch"]

Stretch = tuple[int, int]
"""Datapoints from the first number on, up to the second."""


@final
class SkippingMark(Mark):
    """How far a pass is in which errors leave gaps.

    Attributes:
        given: how many datapoints the consumer has had.
        dealt_with: how many of the flow below these are, those left out included.
    """

    __slots__ = ("dealt_with", "given")

    fields = ("outer_epoch", "epoch", "given", "dealt_with")

    def __init__(self, outer_epoch: int, epoch: int) -> None:
        """Marks the beginning of an epoch."""
        super().__init__(outer_epoch, epoch)
        self.given = self.dealt_with = 0


@final
class UnorderedMark(Mark):
    """How far a pass without order is; its list ends with the beginnings and ends of `done`.

    Attributes:
        given: how many datapoints the consumer had had: of a map now, else when the current stretch began.
        begin, end: the current stretch, which the consumer is being given; of a map, up to the next input.
        done: stretches that the consumer has had whole, in order.
    """

    __slots__ = ("begin", "done", "end", "given")

    fields = ("outer_epoch", "epoch", "given", "begin", "end", "done")
    _PLAIN = len(fields) - 1

    def __init__(self, outer_epoch: int, epoch: int) -> None:
        """Marks the beginning of an epoch."""
        super().__init__(outer_epoch, epoch)
        self.done: list[Stretch] = []
        self.given = self.begin = self.end = 0

    @classmethod
    def from_list(cls, numbers: Iterable[int] | None) -> Self | None:
        """Returns the mark that `numbers` came from or are; `None` if they are no mark of this class."""
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
        """Yields the numbers as a state holds them."""
        yield from (self.outer_epoch, self.epoch, self.given, self.begin, self.end)
        for stretch in self.done:
            yield from stretch

    def restart(self, given: int) -> None:
        """Marks a pass whose first `given` datapoints the consumer has had, and no others."""
        self.given, self.begin, self.end = given, 0, 0
        self.done = [(0, given)]


M = TypeVar("M", SkippingMark, UnorderedMark)


def own_key(epoch: Epoch) -> str:
    """Returns the key of a parallel flow's mark: beside that of the flow below, which has the same place."""
    return f"{epoch.key}*"


def own_mark(kind: type[M], epoch: Epoch) -> M:
    """Returns a parallel flow's mark in `epoch`; a new one if `epoch` has none of this kind and pass."""
    key = own_key(epoch)
    mark = kind.from_list(epoch.marks.get(key))
    if mark is None or not mark.belongs_to(epoch.outer_epoch, epoch):
        mark = kind(epoch.outer_epoch, int(epoch))
    epoch.marks[key] = mark
    return mark


def with_stretch(stretches: list[Stretch], other: Stretch) -> list[Stretch]:
    """Adds a stretch to others; all are in order then, and those that touch are one.

    Example:
        >>> with_stretch([(0, 3), (5, 7)], (3, 5))
        [(0, 7)]
    """
    found: list[Stretch] = []
    for begin, end in sorted([*stretches, other]):
        if begin == end:
            continue
        if found and found[-1][1] == begin:
            found[-1] = found[-1][0], end
        else:
            found.append((begin, end))
    return found


def first_gap(done: list[Stretch]) -> int:
    """Returns the first datapoint that is in none of the stretches.

    Example:
        >>> first_gap([(0, 3), (5, 7)]), first_gap([(5, 7)])
        (3, 0)
    """
    return done[0][1] if done and done[0][0] == 0 else 0
