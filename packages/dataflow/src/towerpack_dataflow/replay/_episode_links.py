"""`EpisodeLinks`: links between successive rows of a memory, and the rows that are complete transitions."""

from __future__ import annotations

from typing import final

import numpy as np

__all__ = ["EpisodeLinks"]


@final
class EpisodeLinks:
    """Links the rows of each environment's episodes, and drops the oldest rows.

    A row is a frame and the step that led to it; the row of an episode's first frame, its start, has no step.
    So a transition is a row and its predecessor, and its frames are stored once::

        row            0       1       2       3        4
        environment    A       B       A       B        A
        frame          a0      b0      a1      b1       a2
        step           start   start   a0->a1  b0->b1   a1->a2
        previous       0       1       0       1        2

    Row numbers are permanent; row r is in slot `r % slots`. The last `capacity` rows are kept. A row is
    usable if it is a transition, and if all frames stacked in front of it are kept, too.

    Attributes:
        previous: int32 by slot, the slot of the previous frame; a start refers to itself.
        next: int32 by slot, the slot of the next frame, or -1.
        usable: whether the slot has a transition that can be sampled.
        tail: the oldest row kept.
        head: the number of the next row.
        count: number of usable rows.
    """

    def __init__(self, slots: int, capacity: int, frame_stack: int) -> None:
        """Starts without rows."""
        self._slots, self._capacity, self._frame_stack = slots, capacity, frame_stack
        self.previous = np.zeros(slots, np.int32)
        self.next = np.full(slots, -1, np.int32)
        self.usable = np.zeros(slots, bool)
        self.tail = self.head = self.count = 0
        self._last = np.full(1, -1)

    def last_rows(self, environments: np.ndarray) -> np.ndarray:
        """Returns the last row of each environment's open episode; -1 if none is open or kept."""
        missing = int(environments.max(initial=0)) + 1 - len(self._last)
        if missing > 0:
            self._last = np.concatenate([self._last, np.full(missing + len(self._last), -1)])
        rows = self._last[environments]
        return np.where(rows >= self.tail, rows, -1)

    def add(self, environments: np.ndarray, starts: np.ndarray, ended: np.ndarray) -> np.ndarray:
        """Links the rows of one step of some environments: the starts first, then one transition each.

        Args:
            environments: distinct numbers.
            starts: whether the environment has no open episode.
            ended: whether the step ends the episode.

        Returns:
            The slots of the transitions.
        """
        before = self.last_rows(environments)
        first, begun = self.head, int(starts.sum())
        begun_rows = np.arange(first, first + begun)
        rows = np.arange(first + begun, first + begun + len(environments))
        before[starts] = begun_rows
        self._link(begun_rows % self._slots, begun_rows % self._slots, False)
        slots = rows % self._slots
        self._link(slots, before % self._slots, True)
        self.next[before % self._slots] = slots
        self._last[environments] = np.where(ended, -1, rows)
        self.head += begun + len(environments)
        self.count += len(environments)
        return slots

    def _link(self, slots: np.ndarray, before: np.ndarray, usable: bool) -> None:
        self.previous[slots] = before
        self.next[slots] = -1
        self.usable[slots] = usable

    def forget_oldest(self) -> np.ndarray:
        """Drops the rows beyond the capacity; returns the slots that are no longer usable."""
        tail = max(self.tail, self.head - self._capacity)
        slots = np.arange(self.tail, tail) % self._slots
        self.tail = tail
        lost = []
        for _ in range(self._frame_stack + 1):  # rows that need the frame of a dropped row follow it directly
            lost.append(slots[self.usable[slots]])
            self.usable[lost[-1]] = False
            after = self.next[slots]
            slots = after[after >= 0].astype(np.int64)
        found = np.concatenate(lost)
        self.count -= len(found)
        return found

    def break_episodes(self) -> None:
        """Closes all open episodes without an end: the next rows of their environments start new ones."""
        self._last[:] = -1

    def open_rows(self) -> list[list[int]]:
        """Lists the environments with an open episode, each with its last row."""
        (found,) = np.nonzero(self._last >= self.tail)
        return [[int(environment), int(self._last[environment])] for environment in found]

    def restore(
        self,
        rows: tuple[int, int],
        environments: np.ndarray,
        starts: np.ndarray,
        open_rows: list[list[int]],
    ) -> np.ndarray:
        """Rebuilds the links of rows from stored data; returns the usable slots.

        Args:
            rows: the tail and the head.
            environments: the environment of each of these rows.
            starts: whether the row is the start of an episode.
            open_rows: a result of `open_rows`.
        """
        self.tail, self.head = rows
        slots = np.arange(*rows) % self._slots
        places = np.arange(len(slots))
        order = np.argsort(environments, kind="stable")
        joined = (environments[order[1:]] == environments[order[:-1]]) & ~starts[order[1:]]
        after, before = order[1:][joined], order[:-1][joined]
        previous = places.copy()
        previous[after] = before
        self.previous[slots] = slots[previous]
        self.next[slots] = -1
        self.next[slots[before]] = slots[after]
        usable = self._with_all_frames(previous, starts)
        self.usable[:] = False
        self.usable[slots] = usable
        self.count = int(usable.sum())
        self._last[:] = -1
        for environment, row in open_rows:
            self.last_rows(np.array([environment]))
            self._last[environment] = row
        return np.asarray(slots[usable])

    def _with_all_frames(self, previous: np.ndarray, starts: np.ndarray) -> np.ndarray:
        """Returns which rows are transitions with all frames present."""
        rows = np.arange(len(previous))
        cut = ~starts & (previous == rows)  # the previous row was dropped
        usable = ~starts
        for _ in range(self._frame_stack):
            usable &= ~cut[rows]
            rows = previous[rows]
        return usable
