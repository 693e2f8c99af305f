"""Assigns datapoints to tasks and restores their order; independent of processes."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import Generic, TypeVar, final

__all__ = ["Dispatcher", "TaskSize"]

T = TypeVar("T")

_WORK = 4e-3  # seconds of work that justify a message: it costs 30 us on both sides, on busy processors 300
_BYTES = 2**20  # beyond this, more datapoints in a message save nothing
_MOST = 4096


@final
class TaskSize:
    """The number of datapoints in a task, adapted to their time and size."""

    def __init__(self, most: int = _MOST, work: float = _WORK) -> None:
        """Starts with one datapoint; limited to `most` datapoints, and to `work` seconds of them."""
        self._count = 1.0
        self._most = most
        self._work = work
        self.seconds = 0.0
        self.bytes = 0.0

    @property
    def count(self) -> int:
        """The number of datapoints for the next task."""
        return int(self._count)

    def learn(self, count: int, seconds: float, size: int) -> None:
        """Updates the estimate from a task of `count` datapoints, with its `seconds` and `size` in bytes."""
        if not count:
            return
        new = self.seconds == 0.0
        weight = 1.0 if new else 0.25
        self.seconds += weight * (seconds / count - self.seconds)
        self.bytes += weight * (size / count - self.bytes)
        fitting = min(self._work / max(self.seconds, 1e-9), _BYTES / max(self.bytes, 1e-9), self._most)
        # It grows step by step: the first datapoint is often the slowest, or the smallest.
        self._count = max(1.0, min(fitting, self._count * 2))


@final
class Dispatcher(Generic[T]):
    """Hands out ranges of one pass, and yields their datapoints to the consumer, in order.

    A range may be completed in part; its rest is handed out again before anything else. The ranges
    handed out and not consumed yet are bounded in number and in bytes, except for the one that the consumer
    waits for: so the consumer can always continue, and neither a slow range nor a slow consumer fills the
    memory.

    Args:
        start: the first datapoint.
        stop: the one after the last; `None` if unknown.
        window: number of ranges that may be in progress or ready.
        large: that number for datapoints of a megabyte or more, and before the size is known.
        budget: number of bytes that may be in progress or ready.
        ordered: whether datapoints leave in order, or as they arrive.
        done: ranges `(begin, end)` after `start` already delivered to the consumer.
        longest: the largest number of datapoints in a range; `None` for as many as justify a message.
        work: seconds of work that justify a message.
        contiguous: number of datapoints that one worker should make; ranges end at its multiples.
    """

    def __init__(
        self,
        start: int,
        stop: int | None,
        *,
        window: int = 256,
        large: int = 256,
        budget: int = 2**28,
        ordered: bool = True,
        done: Iterable[tuple[int, int]] = (),
        longest: int | None = None,
        work: float = _WORK,
        contiguous: int = 1,
    ) -> None:
        """Starts with nothing handed out."""
        self._contiguous = contiguous
        self._stop = stop
        self._window = window
        self._large = large
        self._budget = budget
        self._ordered = ordered
        self._rests: list[tuple[int, int]] = []
        self._flying: dict[int, int] = {}
        self._ready: dict[int, tuple[int, int, T]] = {}  # begin: end, bytes, datapoints
        self._ready_bytes = 0
        self._due = start
        self._fresh = start
        for begin, end in sorted(done):
            if begin > self._fresh:
                self._rests.append((self._fresh, begin))
            self._fresh = end
        self.task_size = TaskSize(longest or _MOST, work)

    @property
    def due(self) -> int:
        """The next datapoint of an ordered consumer."""
        return self._due

    @property
    def exhausted(self) -> bool:
        """Whether all ranges are handed out, up to the known end."""
        return not self._rests and self._stop is not None and self._fresh >= self._stop

    @property
    def finished(self) -> bool:
        """Whether all datapoints are taken."""
        stop = self._stop
        if stop is None or self._ready or not self.exhausted:
            return False
        return not any(begin < stop for begin in self._flying)

    @property
    def ready(self) -> bool:
        """Whether `take` would return datapoints."""
        return self._due in self._ready if self._ordered else bool(self._ready)

    @property
    def waits(self) -> bool:
        """Whether the consumer must wait: nothing is ready, and the pass is not finished."""
        return not (self.ready or self.finished)

    @property
    def idle(self) -> bool:
        """Whether no range is in progress."""
        return not self._flying

    def held_bytes(self) -> float:
        """Returns the bytes of all ready datapoints, plus an estimate for those in progress."""
        return self._ready_bytes + sum(self._flying.values()) * self.task_size.bytes

    @property
    def length(self) -> int:
        """The number of datapoints in a range."""
        count, size = self.task_size.count, self.task_size.bytes
        if count >= self._contiguous or not size:
            return max(count - count % self._contiguous, 1)
        fitting = self._budget / (2 * self._large * size)
        return max(count, int(min(self._contiguous, fitting)))

    @property
    def under_way(self) -> int:
        """Number of ranges in progress or ready."""
        return len(self._flying) + len(self._ready)

    def next_range(self, budget: int | None = None, others: int = 0) -> tuple[int, int] | None:
        """Returns the next range `(begin, end)`; `None` without a range or without room for it.

        Args:
            budget: number of bytes, instead of that of all passes.
            others: number of ranges of earlier passes in progress or ready.
        """
        if self._rests:
            begin, rest = heapq.heappop(self._rests)
            end = min(self._end(begin), rest)
            if end < rest:
                heapq.heappush(self._rests, (end, rest))
        elif self.exhausted or not self._room(self._budget if budget is None else budget, others):
            return None
        else:
            begin, end = self._fresh, self._end(self._fresh)
            if self._stop is not None:
                end = min(end, self._stop)
            self._fresh = end
        self._flying[begin] = end - begin
        return begin, end

    def complete(
        self, begin: int, end: int, made: T, size: int = 0, seconds: float = 0.0, going_on: bool = False
    ) -> None:
        """Accepts `made`, the datapoints from `begin` to `end`, which may be a part of the range.

        The rest is handed out again, unless its worker is `going_on`, that is, continues with it.
        """
        limit = begin + self._flying.pop(begin)
        if going_on:
            self._flying[end] = limit - end
        elif end < limit and (self._stop is None or end < self._stop):
            heapq.heappush(self._rests, (end, limit))
        self.task_size.learn(end - begin, seconds, size)
        if self._stop is not None and begin > self._stop:
            return
        self._ready[begin] = (end, size, made)
        self._ready_bytes += size

    def take_back(self, begin: int) -> None:
        """Hands a range out again, before anything else."""
        end = begin + self._flying.pop(begin)
        if self._stop is None or begin < self._stop:
            heapq.heappush(self._rests, (begin, end))

    def divide(self, begin: int) -> None:
        """Splits a range in progress into ranges of one datapoint each."""
        for number in range(begin, begin + self._flying.pop(begin)):
            self._flying[number] = 1

    def end_at(self, stop: int) -> None:
        """Ends the pass before `stop`, and drops everything after it."""
        self._stop = stop if self._stop is None else min(self._stop, stop)
        self._rests = [(begin, min(end, stop)) for begin, end in self._rests if begin < stop]
        for begin in [begin for begin in self._ready if begin > stop]:
            self._ready_bytes -= self._ready.pop(begin)[1]

    def take(self) -> T | None:
        """Returns the next datapoints for the consumer; `None` if they are not ready."""
        begin = self._due if self._ordered else next(iter(self._ready), None)
        if begin is None or begin not in self._ready:
            return None
        end, size, made = self._ready.pop(begin)
        self._ready_bytes -= size
        self._due = end if self._ordered else self._due + end - begin
        return made

    def clear(self) -> None:
        """Drops the rest, which the consumer does not need."""
        self._ready.clear()
        self._ready_bytes = 0
        self.end_at(-1)

    def _end(self, begin: int) -> int:
        length = self.length
        return begin + length - (begin % length if self._contiguous > 1 else 0)

    def _room(self, budget: int, others: int) -> bool:
        under_way = self.under_way
        known = self.task_size.seconds > 0.0
        window = self._window if known and self.task_size.bytes < _BYTES else self._large
        return not under_way or (under_way + others < window and self.held_bytes() < budget)
