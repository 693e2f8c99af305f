"""Whether to wait for the slot that was sent last, because it is still in the processor's caches."""

from __future__ import annotations

_LARGE = 2**22  # bytes; of anything smaller, several fit into a cache of today
_FAST = 1e9  # bytes a second; what is made more slowly than that does not wait for memory
_FEW = 6  # first measurements, most of them of memory that was never touched before
_TURNS = 32
_WEIGHT = 0.25


class Warmth:
    """Chooses between the slot that comes back soon and another one that is free already.

    What is written as fast as memory takes it is written up to twice as fast where it was written before, as
    long as that is still in a cache. If the consumer is quick, the slot that holds it comes back in a
    fraction of that time. Nobody can know caches and consumers, so both ways are measured, the quicker one is
    gone, and the other one is tried again now and then.
    """

    def __init__(self) -> None:
        """Has measured nothing yet."""
        self._seconds = {False: 0.0, True: 0.0}
        self._measured = 0

    def patience(self, size: int) -> float:
        """Seconds to wait at most for a slot of `size` bytes; 0 to take another one."""
        plain = self._seconds[False]
        if size < _LARGE or self._measured < _FEW or size < _FAST * plain:
            return 0.0
        wait = self._seconds[True] <= plain
        if self._measured % _TURNS == 0:
            wait = not wait
        return plain / 2 if wait else 0.0

    def learn(self, waited: bool, seconds: float) -> None:
        """Something was made in `seconds`, after waiting or without."""
        known = self._seconds[waited]
        weight = _WEIGHT if known and self._measured > 1 else 1.0
        self._seconds[waited] += weight * (seconds - known)
        self._measured += 1
