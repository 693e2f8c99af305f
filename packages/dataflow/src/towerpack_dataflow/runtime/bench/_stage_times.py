"""Timers on every flow of a tree."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, final

from ...flow._flow import DataFlow
from .._parallel_flow import ParallelFlow
from ..tracing import Spans, StageTimer, put_timers, take_off

__all__ = ["Stage", "measured_stages", "stage_spans", "stage_timers"]


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
