"""Conclusions from measurements of a flow: its bottleneck, and how many workers it needs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, final

from ...flow._columns import duration
from ...flow._flow import DataFlow
from .._parallel_flow import ParallelFlow
from .._spans import Spans
from .._stage_timer import StageTimer, put_timers, take_off
from .._suggest_workers import Suggestion, suggest_workers

__all__ = ["Diagnosis", "SpeedResult", "Stage", "measured_stages", "stage_spans", "stage_timers"]


@final
class Stage(NamedTuple):
    """The times of one flow of a tree, measured in one process.

    Attributes:
        name: name of the flow.
        depth: depth below the root.
        workers: number of worker processes that share its work in the real flow; 0: it runs in the
            consumer's.
        datapoints: number of datapoints it yielded.
        busy: seconds spent in the flow itself.
        computing: part of `busy` spent on a processor; the rest was spent waiting for files, network or
            threads.
        waiting: seconds spent in the flows below it.
    """

    name: str
    depth: int
    workers: int
    datapoints: int
    busy: float
    computing: float
    waiting: float


@contextmanager
def stage_timers(flow: DataFlow) -> Iterator[list[StageTimer]]:
    """Puts a timer on each flow below `flow` inside the block; yields the timers, parents first.

    Flows with workers are bypassed: the work of their workers runs here.
    """
    undo: list[Any] = []
    timers: list[StageTimer] = []
    try:
        _time_below(flow, None, 0, timers, undo)
        yield timers
    finally:
        take_off(undo)


@contextmanager
def stage_spans(flow: DataFlow, spans: Spans) -> Iterator[None]:
    """Adds a span for each call of a flow below `flow` inside the block, for flows read by this process."""
    undo: list[Any] = []

    def timed(each: DataFlow, over: StageTimer | None) -> StageTimer:
        timer = StageTimer(each, over, spans=spans)
        if not isinstance(each, ParallelFlow):
            undo.extend(put_timers(each, timed, timer))
        elif each._reads_here:  # the flow below is the map called by its workers
            undo.extend(put_timers(each.ds, timed, timer))
        return timer

    try:
        undo.extend(put_timers(flow, timed, None))
        yield
    finally:
        take_off(undo)


def measured_stages(timers: list[StageTimer]) -> list[Stage]:
    """Returns the measured times, with each flow's time separate from that of the flows below it."""
    found = []
    for timer in timers:
        below = [other for other in timers if other.parent is timer]
        waiting = sum(other.seconds for other in below)
        busy = max(timer.seconds - waiting, 0.0)
        computing = min(max(timer.computing - sum(other.computing for other in below), 0.0), busy)
        name = timer.ds._name()
        found.append(Stage(name, timer.depth, timer.workers, timer.count, busy, computing, waiting))
    return found


def _time(
    flow: DataFlow, parent: StageTimer | None, workers: int, timers: list[StageTimer], undo: list[Any]
) -> StageTimer:
    here = below = workers
    while isinstance(flow, ParallelFlow):
        here = max(here, 1) * flow._worker_count
        below = workers if flow._reads_here else here
        flow = flow.ds
        flow.reset_state()
    timer = StageTimer(flow, parent, here)
    timers.append(timer)
    _time_below(flow, timer, below, timers, undo)
    return timer


def _time_below(
    flow: DataFlow, parent: StageTimer | None, workers: int, timers: list[StageTimer], undo: list[Any]
) -> None:
    undo += put_timers(flow, lambda each, over: _time(each, over, workers, timers, undo), parent)


@final
class SpeedResult(NamedTuple):
    """A measurement by `TestDataSpeed`; its text is one readable line.

    Attributes:
        datapoints: number of timed datapoints.
        seconds: their total time.
        bytes: size of their arrays, strings and numbers.
        memory: bytes of this process and its workers, shared pages counted once; 0 if unknown.
        processes: number of these processes.
        cpu_seconds: processor time of all of them meanwhile; 0 if unknown.

    Example:
        >>> print(SpeedResult(datapoints=500, seconds=2.0, bytes=3_000_000))
        500 datapoints in 2.00 s: 250 datapoints/s, 1.5 MB/s
    """

    datapoints: int
    seconds: float
    bytes: int
    memory: int = 0
    processes: int = 1
    cpu_seconds: float = 0.0

    @property
    def datapoints_per_second(self) -> float:
        """Datapoints per second."""
        return self.datapoints / self.seconds

    @property
    def bytes_per_second(self) -> float:
        """Bytes of arrays, strings and numbers per second."""
        return self.bytes / self.seconds

    @property
    def cpu_ms_per_datapoint(self) -> float:
        """Milliseconds of processor time per datapoint, over all processes."""
        return 1e3 * self.cpu_seconds / self.datapoints

    def __str__(self) -> str:
        """Returns the line that `TestDataSpeed.start()` prints."""
        line = (
            f"{self.datapoints} datapoints in {self.seconds:.2f} s: "
            f"{self.datapoints_per_second:.0f} datapoints/s, {self.bytes_per_second / 1e6:.1f} MB/s"
        )
        if self.cpu_seconds:
            line += f", {self.cpu_ms_per_datapoint:.3g} CPU-ms/datapoint"
        if not self.memory:
            return line
        where = "1 process" if self.processes == 1 else f"{self.processes} processes"
        return f"{line}; {self.memory / 1e6:.0f} MB in {where}"


@final
class Diagnosis(NamedTuple):
    """A diagnosis by `TestDataSpeed.diagnose()`; its text is a readable report.

    Attributes:
        result: the whole flow, workers included.
        stages: each flow of the tree, measured in one process without workers; parents first.
        addressable: whether workers could share the whole flow.
        consumer: seconds per datapoint that the consumer takes, as passed to `diagnose()`.

    Example:
        >>> top = Stage("BatchData(8)", 0, 0, 10, busy=0.1, computing=0.1, waiting=0.9)
        >>> below = Stage("MapData(f)", 1, 0, 80, busy=0.9, computing=0.9, waiting=0.0)
        >>> diagnosis = Diagnosis(SpeedResult(10, 1.0, 8000), (top, below), True, consumer=0.05)
        >>> diagnosis.bottleneck.name, diagnosis.suggestion.workers
        ('MapData(f)', 2)
    """

    result: SpeedResult
    stages: tuple[Stage, ...]
    addressable: bool
    consumer: float = 0.0

    @property
    def bottleneck(self) -> Stage:
        """The flow that takes the most time, with its workers taken into account."""
        return max(self.stages, key=_share)

    @property
    def suggestion(self) -> Suggestion:
        """The suggested number of workers: for the stages already in workers, or else for the whole flow."""
        shared = [stage for stage in self.stages if stage.workers] or list(self.stages)
        given = max(self.stages[0].datapoints, 1)
        busy = sum(stage.busy for stage in shared)
        computing = sum(stage.computing for stage in shared) / busy if busy else 1.0
        alone = sum(stage.busy for stage in self.stages if stage not in shared)
        return suggest_workers(
            busy / given,
            self.result.bytes / self.result.datapoints,
            computing=computing,
            consumer=self.consumer + alone / given,
        )

    def __str__(self) -> str:
        """Returns the report that `TestDataSpeed.diagnose()` prints."""
        lines = [str(self.result), "each flow, measured in one process:", *self._table()]
        worst = self.bottleneck
        share = _share(worst) / max(sum(map(_share, self.stages)), 1e-9)
        how = "computing" if worst.computing > worst.busy / 2 else "waiting for files, network or threads"
        lines.append(f"bottleneck: {worst.name}, {share:.0%} of the time, mostly {how}")
        lines.append(f"suggestion: {self.suggestion}")
        if not self.addressable and self.suggestion.workers > 1:
            lines.append(
                "this flow is a stream, which one worker reads at a time: to use the others, put the slow "
                "functions into MultiProcessMapData"
            )
        return "\n".join(lines)

    def _table(self) -> list[str]:
        names = ["  " * stage.depth + stage.name for stage in self.stages]
        width = max(map(len, [*names, "flow"]))
        lines = [f"  {'flow':<{width}}  datapoints   busy each  computing  waits below  workers"]
        for name, stage in zip(names, self.stages):
            each = duration(stage.busy / max(stage.datapoints, 1))
            computing = stage.computing / stage.busy if stage.busy else 1.0
            waiting = stage.waiting / max(stage.busy + stage.waiting, 1e-9)
            lines.append(
                f"  {name:<{width}}  {stage.datapoints:>10}  {each:>10}  {computing:>9.0%}  {waiting:>11.0%}"
                f"  {stage.workers or '-':>7}"
            )
        return lines


def _share(stage: Stage) -> float:
    return stage.busy / max(stage.workers, 1)
