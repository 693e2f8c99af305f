"""A flow that is measured by its first datapoints, and moved to a worker if they are expensive."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, final

from towerpack_dataflow import MultiProcessRunner

__all__ = ["MeasuredFlow"]

_log = logging.getLogger("towerpack_inputsource")

# A thread holds the interpreter lock for up to 5 ms while a finished step waits for it. If a datapoint takes
# less time than this limit, steps rarely wait; above it, the 0.1 ms for the transfer from a worker are
# cheaper.
_HOLDS_UP_STEPS = 1e-3
_SECONDS_TO_MEASURE, _MOST_TO_MEASURE = 0.1, 8


class _Head(NamedTuple):
    """The measured datapoints of a flow, to be given first.

    Attributes:
        given: each datapoint, with the flow's position after it.
        seconds: processor time per datapoint; 0 if unknown.
        error: the exception that the flow raised instead of the next datapoint; raised at that position.
    """

    given: list[tuple[Any, Any]]
    seconds: float
    error: Exception | None


@final
class MeasuredFlow:
    """An addressable flow that may move to a worker process after its first few datapoints.

    All measured datapoints are used, so functions of the flow do not run twice, and global random numbers are
    unaffected. The decision is made in the first pass, in the thread that starts it.

    Args:
        flow: the flow.
        reason_to_stay: returns the reason why a flow cannot be moved to a worker; None if it can.

    Attributes:
        reads: the flow.
    """

    def __init__(self, flow: Any, reason_to_stay: Callable[[Any], str | None]) -> None:
        self.reads = flow
        self._reason_to_stay = reason_to_stay
        self._now = flow
        self._lent = self._decided = False
        self._held: Any = None  # the position while datapoints of the head are given

    def __repr__(self) -> str:
        return repr(self._now)

    def __len__(self) -> int:
        return len(self._now)

    @property
    def fixed_batch_size(self) -> int | None:
        """The size of each batch, if the flow has one."""
        return getattr(self._now, "fixed_batch_size", None)

    @property
    def sharded(self) -> bool | None:
        """Whether the flow is one process's share of an order."""
        return getattr(self.reads, "sharded", None)

    @property
    def in_worker(self) -> bool:
        """Whether the flow was moved."""
        return self._now is not self.reads

    def seed(self, seed: int) -> None:
        """Seeds the flow."""
        self._now.seed(seed)

    def reset_state(self) -> None:
        """Prepares the flow for iteration."""
        self._now.reset_state()

    def lend_read_only(self) -> None:
        """Makes the flow lend its memory, in this process and in a worker."""
        self._lent = True
        self._now.lend_read_only()

    def state_dict(self) -> Any:
        """Returns the position after the last given datapoint: the same with and without a worker."""
        return self._now.state_dict() if self._held is None else self._held

    def load_state_dict(self, state: Any) -> None:
        """Makes the next pass start at a position."""
        self._held = None
        self._now.load_state_dict(state)

    def __iter__(self) -> Iterator[Any]:
        self._held = None
        if self._decided:
            return iter(self._now)
        self._decided = True
        rest = iter(self._now)
        origin = self._now.state_dict()
        head = self._measure(rest)
        if head.error is None and head.seconds >= _HOLDS_UP_STEPS:
            rest = self._beside_steps(rest, head.seconds)
        self._held = origin
        return self._pass(head, rest)

    def _pass(self, head: _Head, rest: Iterator[Any]) -> Iterator[Any]:
        for datapoint, position in head.given:
            self._held = position
            yield datapoint
        if head.error is not None:
            raise head.error
        self._held = None
        yield from rest

    def _measure(self, datapoints: Iterator[Any]) -> _Head:
        given: list[tuple[Any, Any]] = []
        begin = computed = done = 0.0
        error = None
        try:
            for datapoint in datapoints:
                given.append((datapoint, self._now.state_dict()))
                done = time.thread_time()
                if len(given) == 1:  # the first one opens files and imports modules
                    begin, computed = time.perf_counter(), done
                if len(given) >= _MOST_TO_MEASURE or time.perf_counter() - begin > _SECONDS_TO_MEASURE:
                    break
        except Exception as caught:
            error = caught
        seconds = (done - computed) / (len(given) - 1) if len(given) > 1 else 0.0
        return _Head(given, seconds, error)

    def _beside_steps(self, rest: Iterator[Any], seconds: float) -> Iterator[Any]:
        """Returns the rest of the pass, from a worker if that is possible."""
        flow = self.reads
        work = f"Each datapoint of {flow!r} takes {1e3 * seconds:.1f} ms of processor time"
        if (reason := self._reason_to_stay(flow)) is not None:
            _log.info("%s, which delays training steps, but it stays in this process: %s.", work, reason)
            return rest
        _log.info("%s, so it runs in a worker process. data=QueueInput(flow) keeps it in this one.", work)
        runner = MultiProcessRunner(flow, 1)
        runner.load_state_dict(flow.state_dict())
        if self._lent:
            runner.lend_read_only()
        self._now = runner
        return iter(runner)
