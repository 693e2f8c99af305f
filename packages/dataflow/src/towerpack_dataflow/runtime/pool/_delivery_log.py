"""What a pass has given so far, and what a state must say about it so that a later pass can go on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...flow._epoch import Epoch
from ...operators._map_data import FilterMark

if TYPE_CHECKING:
    from ...flow._marks import Marks
    from ..worker._task_messages import Answer

Stretch = tuple[int, int]


class Ledger:
    """Of a pass in order, from which nothing is left out: nothing but a number.

    Attributes:
        start: the first datapoint to ask for.
        done: stretches behind it that the consumer has had already.
    """

    def __init__(self, start: int) -> None:
        """Goes on at `start`."""
        self.start = start
        self.done: list[Stretch] = []

    def enter(self, answer: Answer) -> int:
        """The consumer gets these datapoints next, less the first few, which it had before."""
        return 0

    def leave(self) -> None:
        """The consumer has had them all."""


class SkippingLedger(Ledger):
    """Of a pass in which errors leave gaps. The mark: era, epoch, datapoints given, datapoints dealt with."""

    def __init__(self, epoch: Epoch, start: int) -> None:
        """Goes on where the mark in `epoch` says; anew if it has none that serves."""
        super().__init__(0)
        self._mark = _own_mark(epoch, 4)
        if self._mark[2] > start:
            self._mark[2:] = 0, 0
        self.start = self._mark[3]
        self._unseen = start - self._mark[2]

    def enter(self, answer: Answer) -> int:
        """See `Ledger`."""
        made = answer.end - answer.begin - len(answer.skipped)
        self._next = self._mark[2] + made, answer.end
        unseen = min(self._unseen, made)
        self._unseen -= unseen
        return unseen

    def leave(self) -> None:
        """See `Ledger`."""
        self._mark[2:] = self._next


class UnorderedLedger(Ledger):
    """Of a pass without order. The mark: era, epoch, datapoints given before this stretch, the stretch that
    is being given, and those given before, each from where to where."""

    def __init__(self, epoch: Epoch, start: int) -> None:
        """Goes on where the mark in `epoch` says; without one, all was in order so far."""
        super().__init__(start)
        self._mark = mark = _own_mark(epoch, 5)
        current = start - mark[2]
        if not 0 <= current <= mark[4] - mark[3]:
            mark[2:] = start, 0, 0, 0, start
            current = 0
        self.done = merged(_pairs(mark[5:]), (mark[3], mark[3] + current))
        self._write()
        self.start = beginning(self.done)

    def enter(self, answer: Answer) -> int:
        """See `Ledger`."""
        self._mark[3:5] = answer.begin, answer.end
        return 0

    def leave(self) -> None:
        """See `Ledger`."""
        self.done = merged(self.done, (self._mark[3], self._mark[4]))
        self._write()

    def _write(self) -> None:
        given = sum(end - begin for begin, end in self.done)
        self._mark[2:] = given, 0, 0, *_flat(self.done)


class MapLedger:
    """Of a pass of a parallel map, which may drop, in order. The mark is that of a `MapData`: era, epoch,
    datapoints given, datapoints read below.

    Attributes:
        start: the first datapoint to read below.
        done: stretches behind it that were dealt with already.
        of_map: the mark that a `MapData` would need to go on from here, or earlier.
    """

    def __init__(self, mark: FilterMark, start: int) -> None:
        """Goes on where the mark says; what the consumer has had since then will come again."""
        self.of_map = mark
        self._wanted = start
        self.start = mark.read
        self.done: list[Stretch] = []

    def enter(self, answer: Answer) -> Marks:
        """What came of this stretch is given next; the marks of the flows below that a state needs then."""
        return answer.marks or {}

    def step(self, dropped: bool) -> bool:
        """One more input is dealt with; whether the consumer gets what came of it."""
        mark = self.of_map
        mark.read += 1
        mark.given += not dropped
        return not dropped and mark.given > self._wanted

    def leave(self, answer: Answer) -> None:
        """All that came of this stretch was given."""
        self.of_map.read = answer.end


class UnorderedMapLedger(MapLedger):
    """The same without order. The mark: era, epoch, datapoints given, how far the stretch that is being given
    is read, and which were read before, each from where to where."""

    def __init__(self, epoch: Epoch, start: int) -> None:
        """Goes on where the mark in `epoch` says; without one, all was in order and nothing was dropped."""
        mark = _own_mark(epoch, 5)
        if mark[2] != start:
            mark[2:] = start, 0, 0, 0, start
        super().__init__(FilterMark(epoch.outer_epoch, int(epoch)), -1)
        self._mark = mark
        self.done = merged(_pairs(mark[5:]), (mark[3], mark[4]))
        self.start = beginning(self.done)
        self._marks: dict[int, Marks] = {}
        self._write()

    @staticmethod
    def knows(epoch: Epoch, start: int) -> bool:
        """Whether the mark in `epoch` tells what was read for the `start` datapoints that were given."""
        return _own_mark(epoch, 5)[2] == start

    def enter(self, answer: Answer) -> Marks:
        """See `MapLedger`: a later pass reads on from the first input that was not dealt with."""
        self._mark[3:5] = answer.begin, answer.begin
        self._marks[answer.begin] = answer.marks or {}
        known = [begin for begin in self._marks if begin <= beginning(self.done)]
        for begin in sorted(known)[:-1]:
            del self._marks[begin]
        return self._marks[max(known)] if known else {}

    def step(self, dropped: bool) -> bool:
        """See `MapLedger`."""
        self._mark[4] += 1
        self._mark[2] += not dropped
        return not dropped

    def leave(self, answer: Answer) -> None:
        """See `MapLedger`."""
        self.done = merged(self.done, (answer.begin, answer.end))
        self._write()

    def _write(self) -> None:
        self._mark[3:] = 0, 0, *_flat(self.done)


def merged(stretches: list[Stretch], other: Stretch) -> list[Stretch]:
    """Stretches in order, those that touch as one.

    >>> merged([(0, 3), (5, 7)], (3, 5))
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


def beginning(done: list[Stretch]) -> int:
    """The first datapoint that is in none of them."""
    return done[0][1] if done and done[0][0] == 0 else 0


def _pairs(numbers: list[int]) -> list[Stretch]:
    return list(zip(numbers[::2], numbers[1::2]))


def _flat(stretches: list[Stretch]) -> list[int]:
    return [number for stretch in stretches for number in stretch]


def own_key(epoch: Epoch) -> str:
    """Where a parallel flow keeps its mark: beside that of the flow below, which stands at the same place."""
    return f"{epoch.key}*"


def _own_mark(epoch: Epoch, size: int) -> list[int]:
    key = own_key(epoch)
    mark: Any = epoch.marks.get(key)
    if mark is None or mark[:2] != [epoch.era, epoch] or len(mark) < size:
        mark = epoch.marks[key] = [epoch.era, int(epoch)] + [0] * (size - 2)
    numbers: list[int] = mark
    return numbers
