"""Tasks of `MultiProcessRunner`: a worker iterates over a flow."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from time import perf_counter
from typing import Any, NamedTuple, final

from ...batch._batch_data import BatchData
from ...batch._buffer_pool import BatchAllocator
from ...flow._epoch import as_lists
from ...flow._flow import DataFlow
from ...flow._flow_state import load_marks, set_seeds_below
from ...flow._resume_marks import Marks
from ...flow._written_flow import is_steady
from .._spans import NO_SPANS, Spans
from .._stage_timer import StageTimer, put_timers
from ..transport._collected_datapoints import Collected, DatapointList, QuickList, SteadyList
from ..transport._remote_errors import Failure
from ._task_handler import ATTEMPTS, PassSpec, TaskHandler, TaskResult, marks_throughout

__all__ = ["ReadTaskHandler"]

_PATIENCE = 0.02  # seconds after which a part of a range is sent; other workers may take the rest
_LONGEST_CAUTION = 2**10  # ranges
_AT_ONCE = 32  # datapoints between two reads of the clock
_QUICK = 5e-4  # time limit for that many, in seconds


@final
class ReadTaskHandler(TaskHandler):
    """Iterates over a flow.

    Args:
        flow: the flow.
        on_error: see `TaskHandler`.
        replicates: whether each worker reads the whole flow.

    Attributes:
        continues_range: whether a worker continues with the rest of a range of which it has sent a part, even
            if others could take it.
    """

    def __init__(self, flow: DataFlow, on_error: str, *, replicates: bool = False) -> None:
        """Stores the flow."""
        super().__init__(on_error)
        self.continues_range = False
        self.divides = replicates or flow.addressable
        self._flow = flow
        self._steady = is_steady(flow)
        self._passes: dict[int, _ReadPass] = {}
        self._seeded: _ReadPass | None = None
        self._caution = _Caution()
        self._timers: list[StageTimer] = []

    def contents(self) -> dict[str, Any]:
        """Returns the flow."""
        return {self._flow._name(): self._flow}

    def in_thread(self) -> ReadTaskHandler:
        """Separates the passes of this handler from those of the others; the flow has its seeds already."""
        self._passes = {}
        self._seeded = None
        self._in_thread = True
        return self

    def prepare(self, memory: BatchAllocator) -> None:
        """Resets the flow; a batch on top of it is built in the memory from which it is sent."""
        self._flow.reset_state()
        top = self._flow
        while top.effect.keeps_place and top.children():
            top = top.children()[0]
        if isinstance(top, BatchData):
            top._memory = memory

    def trace(self, spans: Spans) -> None:
        """Puts a timer over each flow at the first call; threads, which share their flow, do not."""
        if not (self._in_thread or self._timers or spans is NO_SPANS):
            self._flow = self._timed(self._flow, None)
        for timer in self._timers:
            timer.spans = spans

    def _timed(self, flow: DataFlow, parent: StageTimer | None) -> StageTimer:
        timer = StageTimer(flow, parent)
        self._timers.append(timer)
        if not hasattr(flow, "_worker_pool"):  # the flow below a `ParallelFlow` is sent to its own workers
            put_timers(flow, self._timed, timer)
        return timer

    def open(self, number: int, spec: PassSpec) -> None:
        """Stores the pass; reads nothing."""
        load_marks(self._flow, spec.marks, spec.path)  # a mark tells a map that it drops datapoints
        self._passes[number] = _ReadPass(self._flow, spec, self._in_thread)

    def close(self, number: int) -> None:
        """Drops the pass and its iterator."""
        del self._passes[number]

    def make(self, number: int, begin: int, end: int, inputs: Any) -> tuple[TaskResult, Any]:
        """Reads the range, or the part that fits into a task's time."""
        this = self._passes[number]
        if self._seeded is not this and not self._in_thread:
            set_seeds_below(self._flow, this.spec.seeds)
            self._seeded = this
        clock = perf_counter()
        before = None if this.spec.addressable else this.marks()
        read_range, made = self._collected(this, begin, end)
        position, skipped, failed_at, failure = read_range[1:]
        retried = len(failed_at) if self.on_error == "retry" else 0
        seconds = perf_counter() - clock
        in_turn = before is not None or self.continues_range
        going_on = in_turn and position < end and not this.ended and failure is None
        marks = None if before is None else marks_throughout(before, this.marks())
        result = TaskResult(number, begin, position, seconds, this.ended, going_on, marks)
        if this.spec.addressable and not self._flow.addressable:
            marks = this.marks() if not this.lost else None
            this.lost = True
            return result._replace(
                end=begin, ended=False, going_on=False, unexpected_drop=True, marks=marks
            ), []
        final = this.marks() if this.ended and before is not None else None
        return (
            result._replace(final_marks=final, skipped=tuple(skipped), retried=retried, failure=failure),
            made,
        )

    def _collected(self, this: _ReadPass, begin: int, end: int) -> tuple[_ReadRange, Any]:
        """Reads a range and also returns its datapoints, unchanged since the flow yielded them."""
        if self._steady:
            read_range = self._read(this, begin, end, SteadyList())
            return read_range, read_range.made.take()
        if this.spec.addressable and not self._caution.advised():
            read_range = self._read(this, begin, end, QuickList(self._in_thread))
            made = read_range.made.take()
            if len(read_range.made) > 1:
                self._caution.learn(made is None)
            if made is not None:
                return read_range, made
            this.restart()  # the flow may have overwritten earlier datapoints: make them again
        read_range = self._read(this, begin, end, DatapointList(end - begin, self._in_thread))
        return read_range, read_range.made.take()

    def _read(self, this: _ReadPass, begin: int, end: int, made: Collected) -> _ReadRange:
        """Reads a range, or the part that fits into a task's time; `on_error` decides about errors."""
        late = perf_counter() + _PATIENCE
        skipped: list[tuple[int, str]] = []
        failed_at: list[int] = []
        failure = None
        position = begin
        while failure is None:
            try:
                position = this.read(position, end, made, late)
                break
            except Exception as error:
                position = this.position
                failed_at.append(position)
                if self.on_error == "retry" and failed_at.count(position) < ATTEMPTS:
                    continue
                if self.on_error == "skip":
                    skipped.append((position, self.packed(error).summary))
                    position += 1
                else:
                    failure = self.packed(error, self._flow)
        return _ReadRange(made, position, skipped, failed_at, failure)


@final
class _Caution:
    """Chooses the ranges to collect with snapshots from the start, based on earlier ranges.

    A flow that reuses memory always does so, while one with repeated rows only occasionally looks like it: so
    after each range that had to be made twice, the caution lasts four times as long.
    """

    def __init__(self) -> None:
        self._length = 0
        self._left = 0

    def advised(self) -> bool:
        self._left -= 1
        return self._left >= 0

    def learn(self, failed: bool) -> None:
        self._length = min(4 * self._length + 3, _LONGEST_CAUTION) if failed else 0
        self._left = self._length


@final
class _ReadRange(NamedTuple):
    """The datapoints that were read, the end of the range, and the skipped and failed datapoints."""

    made: Collected
    position: int
    skipped: list[tuple[int, str]]
    failed_at: list[int]
    failure: Failure | None


@final
class _ReadPass:
    """One pass over a flow, and the worker's position in it."""

    def __init__(self, flow: DataFlow, spec: PassSpec, in_thread: bool) -> None:
        self.spec = spec
        self._in_thread = in_thread
        self.position = -1
        self._begun = False
        self.ended = False
        self.lost = False  # the flow dropped a datapoint, so later ones have no valid number
        self._flow = flow
        self._epoch = spec.to_epoch()
        self._datapoints: Iterator[Any] = iter(())

    def restart(self) -> None:
        """Starts over at the next read."""
        self._begun = False

    def marks(self) -> Marks:
        """Copies the marks of all operators."""
        return as_lists(self._epoch.marks)

    def read(self, begin: int, end: int, made: Collected, late: float) -> int:
        """Appends datapoints `begin` to `end`, or fewer; returns the number of the next one.

        Args:
            begin: the first datapoint.
            end: the one after the last.
            made: receives the datapoints.
            late: time at which to stop, after at least one datapoint.
        """
        if self.spec.addressable and not self._flow.addressable:
            return begin
        if self.ended and begin >= self.position:
            return begin
        if begin != self.position or not self._begun:
            self._datapoints = self._flow._datapoints(self._epoch, begin)
            self._begun = True
        before = len(made)
        try:
            self._read_until(late, begin, end, made)
        except Exception:
            self._begun = False
            raise
        finally:
            self.position = begin + len(made) - before
        return self.position

    def _read_until(self, late: float, position: int, end: int, made: Collected) -> None:
        """Reads without checking the clock for each datapoint, as long as they are fast."""
        clock = perf_counter()
        count = 1
        while position < end:
            began, before = clock, len(made)
            count = min(count, end - position)
            made.extend(islice(self._datapoints, count))
            clock = perf_counter()
            position += count
            if len(made) - before < count:
                self.ended = True
                return
            if clock > late:
                break
            count = min(2 * count, _AT_ONCE) if clock - began < _QUICK else 1
        self.ended = False
