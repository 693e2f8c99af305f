"""How much of an epoch each callback takes."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, final

import attrs

from .._errors import StopTraining
from ..callback import Callback, LoopState, StepFetch

__all__ = ["CallbackTimer", "CallbackTimes", "TimedCall", "call_all_timed", "call_timed"]

_log = logging.getLogger("towerpack_callbacks")

# A callback that takes a small part of an epoch is reported, one that takes a large part is warned of; unless
# it is too little to matter in any case.
_SMALL_PART, _LITTLE_SECONDS = 0.01, 0.1
_LARGE_PART, _MANY_SECONDS = 0.1, 1.0


@final
@attrs.define(eq=False)
class CallbackTimer:
    """The seconds that one callback has taken in this epoch.

    Attributes:
        name: the callback's key in states and reports.
        callback: the callback.
        loop: records the calls, if anything does.
        seconds: the time it took so far.
        was_warned_of: whether a warning has named it.
        raised: the last exception that has left the callback, until `after_train`.
    """

    name: str
    callback: Callback
    loop: LoopState
    seconds: float = 0.0
    was_warned_of: bool = False
    raised: BaseException | None = None

    def call(self, method: str, *arguments: Any) -> Any:
        """Calls a method of the callback, timed."""
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
        """Returns the same function of one argument, timed."""
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
        """Returns the same fetch, whose receiver is timed."""
        return fetch if fetch.receive is None else attrs.evolve(fetch, receive=self.timed(fetch.receive))


TimedCall = tuple[str, CallbackTimer]
"""The name of a callback's method, looked up at each call, and the timer that the call's time is added to."""


def call_timed(calls: Iterable[TimedCall]) -> None:
    """Makes calls one after another, and adds up their times."""
    start = time.perf_counter()
    for method, timer in calls:
        try:
            getattr(timer.callback, method)()
        except BaseException as error:
            timer.raised = error
            raise
        end = time.perf_counter()
        timer.add(method, start, end)
        start = end


def call_all_timed(calls: Iterable[TimedCall]) -> StopTraining | None:
    """Makes all calls, also those after one that requests a stop, and adds up their times.

    Returns:
        The first request. The calls after it are made so that what is saved then is of one moment.
    """
    stop = None
    start = time.perf_counter()
    for method, timer in calls:
        try:
            getattr(timer.callback, method)()
        except StopTraining as reason:
            stop = stop or reason
        except BaseException as error:
            timer.raised = error
            raise
        end = time.perf_counter()
        timer.add(method, start, end)
        start = end
    return stop


@final
class CallbackTimes:
    """Times callbacks when they run, never when they do not, and reports once per epoch.

    Args:
        names: a name for each callback.
        callbacks: the callbacks.
        clock: returns the time in seconds.
        loop: records the calls, if anything does.

    Attributes:
        last_epoch: seconds by name, of the last epoch that is over.
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
        """Returns the callback that an exception has left; None if it came from elsewhere."""
        return next((timer.callback for timer in self._timers.values() if timer.raised is error), None)

    def forget_errors(self) -> None:
        """Lets go of exceptions, and so of all that the frames of their tracebacks hold."""
        for timer in self._timers.values():
            timer.raised = None

    def start_epoch(self) -> None:
        """Sets all timers to zero."""
        self._epoch_start = self._clock()
        for timer in self._timers.values():
            timer.seconds = 0.0

    def end_epoch(self, epoch: int) -> None:
        """Reports what each callback took of the epoch; one that took a large part is warned of once."""
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
                    "%s took %.0f %% of epoch %d (%.3g of %.3g s). If that is too much, let it run less "
                    "often: PeriodicTrigger(..., every_k_epochs=...), or a longer period of its own.",
                    timer.name,
                    100 * timer.seconds / whole,
                    epoch,
                    timer.seconds,
                    whole,
                )
