"""Whether to wait for the slot that was sent last, because it is still in the processor's caches."""

from __future__ import annotations

from collections import deque
from typing import final

__all__ = ["SlotReusePolicy"]

_LARGE = 2**22  # bytes; of anything smaller, several fit into a cache of today
_FAST = 1e9  # bytes a second; datapoints that are made more slowly do not wait for memory
_RECENT = 5  # measurements that count
_FEW = 16  # first turns, most of them with memory that was never touched before
_TRIAL = 96  # turns that a cache may take to hold memory that is written again and again
_SOONEST, _LATEST = 512, 4096  # turns from one trial to the next


@final
class SlotReusePolicy:
    """Chooses between the slot that comes back soon and another one that is free already.

    What is written as fast as memory takes it is written up to twice as fast where it was written before, as
    long as that is still in a cache. If the consumer is quick, the slot that holds it comes back in a
    fraction of that time. Caches and consumers are not known beforehand, so waiting is tried, gone on with as
    long as it is the quicker way, and tried again after a while; more and more rarely if it never is. Where
    waiting was the quicker way and no longer is, another process may just have had the cache, which then
    has as many turns to learn anew.
    """

    def __init__(self) -> None:
        """Begins without measurements."""
        self._seconds: dict[bool, deque[float]] = {way: deque(maxlen=_RECENT) for way in (False, True)}
        self._waits = False
        self._proved = False  # waiting was the quicker way the last time that it was judged
        self._turns = 0  # of waiting, in a row
        self._left = _FEW  # turns until waiting is tried, or has to prove itself
        self._pause = _SOONEST // 2

    def patience(self, size: int) -> float:
        """Returns the seconds to wait at most for a slot of `size` bytes; 0 to take another one."""
        plain = self._typical(False)
        return plain / 2 if self._waits and size >= max(_LARGE, _FAST * plain) else 0.0

    def learn(self, waited: bool, seconds: float) -> None:
        """Notes that something was made in `seconds`, after waiting or without."""
        self._seconds[waited].append(seconds)
        self._left -= 1
        self._turns += waited
        if self._left > 0:
            return
        if not self._waits:
            self._waits, self._turns = True, 0
            self._left = _TRIAL
        elif 0.0 < self._typical(True) <= self._typical(False):
            self._proved = True
        elif self._proved:
            self._proved = False
            self._left = _TRIAL
        else:
            self._give_up()

    def interrupt(self) -> None:
        """Notes that the consumer is behind: nothing was learned, and the caches forget meanwhile."""
        if self._waits:
            self._left = _TRIAL

    def _give_up(self) -> None:
        self._waits = False
        self._seconds[True].clear()
        lasted = self._turns > _SOONEST
        self._left = self._pause = _SOONEST if lasted else min(2 * self._pause, _LATEST)

    def _typical(self, way: bool) -> float:
        """Returns the median, which one turn that was held up does not move; 0 if nothing is known."""
        seconds = sorted(self._seconds[way])
        return seconds[len(seconds) // 2] if seconds else 0.0
