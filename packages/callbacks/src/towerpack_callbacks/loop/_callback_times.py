"""How much of an epoch each callback takes."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

import attrs

from ..callback._callback import Callback

__all__ = ["Stopwatch", "Stopwatches"]

_log = logging.getLogger("towerpack_callbacks")

# What takes a small part of an epoch is reported, what takes a large one is warned of; unless it is too
# little to matter in any case.
_SMALL_PART = 0.01
_LARGE_PART = 0.1
_LITTLE_SECONDS = 0.1


@attrs.define(eq=False)
class Stopwatch:
    """The seconds one callback has taken in this epoch.

    Attributes:
        name: the callback's key in states and reports.
        callback: the callback.
        seconds: what it took so far.
    """

    name: str
    callback: Callback
    seconds: float = 0.0
    named: bool = False

    def around(self, function: Callable[[Any], None]) -> Callable[[Any], None]:
        """The same function of one argument, timed."""
        clock = time.perf_counter

        def timed(value: Any) -> None:
            start = clock()
            try:
                function(value)
            finally:
                self.seconds += clock() - start

        return timed


class Stopwatches:
    """Times callbacks when they run, never when they do not, and reports once per epoch.

    Args:
        names: a name for each callback.
        callbacks: the callbacks.
        clock: tells the time in seconds.
    """

    def __init__(
        self,
        names: Sequence[str],
        callbacks: Sequence[Callback],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._clock = clock
        self._watches = {id(cb): Stopwatch(name, cb) for name, cb in zip(names, callbacks)}
        self._epoch_start = clock()
        self.last_epoch: dict[str, float] = {}

    def of(self, callback: Callback) -> Stopwatch:
        """The stopwatch of one callback."""
        return self._watches[id(callback)]

    def start_epoch(self) -> None:
        """Sets all to zero."""
        self._epoch_start = self._clock()
        for watch in self._watches.values():
            watch.seconds = 0.0

    def end_epoch(self, epoch: int) -> None:
        """Reports what each callback took of the epoch; one that took a large part is warned of once."""
        whole = self._clock() - self._epoch_start
        taken = sorted(self._watches.values(), key=lambda watch: -watch.seconds)
        self.last_epoch = {watch.name: watch.seconds for watch in taken if watch.seconds}
        worth_saying = [
            f"{name} {seconds:.3g} s"
            for name, seconds in self.last_epoch.items()
            if seconds > max(_SMALL_PART * whole, _LITTLE_SECONDS)
        ]
        if worth_saying:
            _log.info("Epoch %d took %.3g s, of which callbacks: %s.", epoch, whole, ", ".join(worth_saying))
        for watch in taken:
            if not watch.named and watch.seconds > max(_LARGE_PART * whole, _LITTLE_SECONDS):
                watch.named = True
                _log.warning(
                    "%s took %.0f %% of epoch %d (%.3g of %.3g s). If that is too much, let it run less "
                    "often: PeriodicTrigger(..., every_k_epochs=...), or a longer period of its own.",
                    watch.name,
                    100 * watch.seconds / whole,
                    epoch,
                    watch.seconds,
                    whole,
                )
