"""Measures the time of each callback per epoch."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, final

import attrs

from .._errors import StopTraining
from ..callback._callback import Callback, StepFetch
from ..callback._every import LoopState

__all__ = ["CallbackTimer", "CallbackTimes", "TimedCall", "call_timed"]

_log = logging.getLogger("towerpack_callbacks")

# Callbacks above the smaller fraction of an epoch are reported; those above the larger fraction cause a
# warning. Times below an absolute minimum are ignored.
_SMALL_PART, _LITTLE_SECONDS = 0.01, 0.1
_LARGE_PART, _MANY_SECONDS = 0.1, 1.0


@final
@attrs.define(eq=False)
class CallbackTimer:
    """Measures the time of one callback in the current epoch, in seconds.

    Attributes:
        name: the callback's key in states and reports.
        callback: the callback.
        loop: its `record`, if set, receives the calls.
        seconds: the time so far.
        was_warned_of: whether a warning was logged for it.
        raised: the last exception that the callback raised, until `after_train`.
    """

    name: str
    callback: Callback
    loop: LoopState
    seconds: float = 0.0
    was_warned_of: bool = False
    raised: BaseException | None = None

    def call(self, method: str, *arguments: Any) -> Any:
        """Calls a method of the callback and measures its time."""
        start = time.perf_counter()
        try:
            return getattr(self.callback, method)(*arguments)
        except BaseException as error:
            self.raised = error
            raise
        finally:
            self.add(method, start, time.perf_counter())

    def add(self, what: str, start: float, end: float) -> None:
        """Adds the time of a call."""
        self.seconds += end - start
        if self.loop.record is not None:
            self.loop.record(f"{self.name}.{what}", "callback", start, end)

    def timed(self, function: Callable[[Any], None]) -> Callable[[Any], None]:
        """Wraps a function of one argument to measure its time."""
        clock = time.perf_counter

        def timed(value: Any) -> None:
            start = clock()
            try:
                function(value)
            except BaseException as error:
                self.raised = error
                raise
            finally:
                self.add("receive", start, clock())

        return timed

    def timed_fetch(self, fetch: StepFetch) -> StepFetch:
        """Returns the same fetch with a receiver that measures its time."""
        return fetch if fetch.receive is None else attrs.evolve(fetch, receive=self.timed(fetch.receive))


TimedCall = tuple[str, CallbackTimer]
"""The name of a callback's method, looked up at each call, and the timer for the call."""


def call_timed(calls: Iterable[TimedCall], *, all_of_them: bool = False) -> StopTraining | None:
    """Makes calls in order and measures their times.

    Args:
        calls: the calls.
        all_of_them: whether the calls after a stop request still run, so that saved states belong to the same
            step.

    Returns:
        The first stop request among all calls, or None.
    """
    stop = None
    start = time.perf_counter()
    for method, timer in calls:
        try:
            getattr(timer.callback, method)()
        except BaseException as error:
            if not (all_of_them and isinstance(error, StopTraining)):
                timer.raised = error
                raise
            stop = stop or error
        end = time.perf_counter()
        timer.add(method, start, end)
        start = end
    return stop


@final
class CallbackTimes:
    """Measures callbacks only when they run, and reports once per epoch.

    Args:
        names: a name for each callback.
        callbacks: the callbacks.
        clock: returns the time in seconds.
        loop: its `record`, if set, receives the calls.

    Attributes:
        last_epoch: seconds by name, of the last finished epoch.
    """

    def __init__(
        self,
        names: Sequence[str],
        callbacks: Sequence[Callback],
        clock: Callable[[], float] = time.perf_counter,
        loop: LoopState | None = None,
    ) -> None:
        self._clock = clock
        loop = LoopState(steps_per_epoch=1) if loop is None else loop
        self._timers = {id(cb): CallbackTimer(name, cb, loop) for name, cb in zip(names, callbacks)}
        self._epoch_start = clock()
        self.last_epoch: dict[str, float] = {}

    def of(self, callback: Callback) -> CallbackTimer:
        """Returns the timer of one callback."""
        return self._timers[id(callback)]

    def raiser_of(self, error: BaseException) -> Callback | None:
        """Returns the callback that raised an exception; None if the exception has another origin."""
        return next((timer.callback for timer in self._timers.values() if timer.raised is error), None)

    def forget_errors(self) -> None:
        """Drops references to exceptions, and thereby to the frames of their tracebacks."""
        for timer in self._timers.values():
            timer.raised = None

    def start_epoch(self) -> None:
        """Sets all timers to zero."""
        self._epoch_start = self._clock()
        for timer in self._timers.values():
            timer.seconds = 0.0

    def end_epoch(self, epoch: int) -> None:
        """Reports the time of each callback in the epoch; warns once about a callback with a large part."""
        whole = self._clock() - self._epoch_start
        taken = sorted(self._timers.values(), key=lambda timer: -timer.seconds)
        self.last_epoch = {timer.name: timer.seconds for timer in taken if timer.seconds}
        worth_saying = [
            f"{name} {seconds:.3g} s"
            for name, seconds in self.last_epoch.items()
            if seconds > max(_SMALL_PART * whole, _LITTLE_SECONDS)
        ]
        if worth_saying:
            _log.info("Epoch %d took %.3g s, of which callbacks: %s.", epoch, whole, ", ".join(worth_saying))
        for timer in taken:
            if not timer.was_warned_of and timer.seconds > max(_LARGE_PART * whole, _MANY_SECONDS):
                timer.was_warned_of = True
                _log.warning(
                    "%s took %.0f %% of epoch %d (%.3g of %.3g s). If that is too much, run it less often: "
                    "PeriodicTrigger(..., every_k_epochs=...), or set a longer period.",
                    timer.name,
                    100 * timer.seconds / whole,
                    epoch,
                    timer.seconds,
                    whole,
                )
