"""Decides whether to wait for the most recent slot, which is still in the processor's caches."""

from __future__ import annotations

from collections import deque
from typing import final

__all__ = ["SlotReusePolicy"]

_LARGE = 2**22  # bytes; several smaller blocks fit into a current cache
_FAST = 1e9  # bytes per second; slower datapoints do not wait for memory
_RECENT = 5  # number of recent measurements used
_FEW = 16  # first turns, mostly with untouched memory
_TRIAL = 96  # turns that a cache may need to hold memory written repeatedly
_SOONEST, _LATEST = 512, 4096  # turns from one trial to the next


@final
class SlotReusePolicy:
    """Chooses between waiting for the most recent slot and using another free one.

    Data produced at memory speed are written up to twice as fast into memory that was written before, as long
    as it is still in a cache. With a quick consumer, the slot with that memory returns in a fraction of that
    time. Caches and consumers are unknown in advance, so waiting is tried, continued while it is faster, and
    tried again after a while; more and more rarely if it never is. If waiting was faster and no longer is,
    another process may have used the cache temporarily, so it gets as many turns to recover.
    """

    def __init__(self) -> None:
        """Starts without measurements."""
        self._seconds: dict[bool, deque[float]] = {way: deque(maxlen=_RECENT) for way in (False, True)}
        self._waits = False
        self._proved = False  # waiting was faster in the last comparison
        self._turns = 0  # of waiting, in a row
        self._left = _FEW  # turns until waiting is tried, or compared again
        self._pause = _SOONEST // 2

    def patience(self, size: int) -> float:
        """Returns the seconds to wait at most for a slot of `size` bytes; 0 to take another one."""
        plain = self._typical(False)
        return plain / 2 if self._waits and size >= max(_LARGE, _FAST * plain) else 0.0

    def learn(self, waited: bool, seconds: float) -> None:
        """Records the time of a turn in `seconds`, with or without waiting."""
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
        """Records that the consumer is behind: nothing was measured, and caches lose their content."""
        if self._waits:
            self._left = _TRIAL

    def _give_up(self) -> None:
        self._waits = False
        self._seconds[True].clear()
        lasted = self._turns > _SOONEST
        self._left = self._pause = _SOONEST if lasted else min(2 * self._pause, _LATEST)

    def _typical(self, way: bool) -> float:
        """Returns the median, which ignores a single slow turn; 0 without measurements."""
        seconds = sorted(self._seconds[way])
        return seconds[len(seconds) // 2] if seconds else 0.0
