"""Where the time goes: a timer on every flow of a tree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter, thread_time
from typing import Any, NamedTuple, final

import numpy as np

from ...flow._columns import Columns
from ...flow._epoch import Epoch
from ...flow._find_flows import flows_in
from ...flow._flow import DataFlow
from ...operators._proxy_flow import ProxyDataFlow
from .._parallel_flow import ParallelFlow

__all__ = ["Stage", "StageTimer", "measured_stages", "stage_timers"]


@final
class Stage(NamedTuple):
    """The times of one flow of a tree, measured in one process.

    Attributes:
        name: of the flow.
        depth: how far below the root it is.
        workers: how many worker processes share its work in the real flow; 0: it runs in the consumer's.
        datapoints: how many it gave.
        busy: seconds spent in the flow itself.
        computing: of these, seconds on a processor; in the others it waited for files, network or threads.
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
    """Puts a timer on each flow below `flow` while inside; yields the timers, parents first.

    Flows with workers are bypassed: the work of their workers runs here.
    """
    undo: list[tuple[DataFlow, str, Any]] = []
    timers: list[StageTimer] = []
    try:
        _time_children(flow, None, 0, timers, undo)
        yield timers
    finally:
        for holder, name, value in reversed(undo):
            setattr(holder, name, value)


def measured_stages(timers: list[StageTimer]) -> list[Stage]:
    """Returns the measured times, each flow's own time apart from that of the flows below it."""
    found = []
    for timer in timers:
        below = [other for other in timers if other.parent is timer]
        waiting = sum(other.seconds for other in below)
        busy = max(timer.seconds - waiting, 0.0)
        computing = min(max(timer.computing - sum(other.computing for other in below), 0.0), busy)
        name = timer.ds._name()
        found.append(Stage(name, timer.depth, timer.workers, timer.count, busy, computing, waiting))
    return found


@final
class StageTimer(ProxyDataFlow):
    """Times the flow below it, together with all flows below that one."""

    _transparent = True
    _passes_on = True

    def __init__(self, ds: DataFlow, parent: StageTimer | None, workers: int) -> None:
        """Begins at zero."""
        super().__init__(ds)
        self.parent = parent
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.workers = workers
        self.count = 0
        self.seconds = self.computing = 0.0

    def _datapoints(self, epoch: Epoch, start: int) -> Iterator[Any]:
        datapoints = iter(self.ds._datapoints(self._below(epoch), start))
        nothing = object()
        while True:
            begin = perf_counter(), thread_time()
            datapoint = next(datapoints, nothing)
            self._add(begin)
            if datapoint is nothing:
                return
            self.count += 1
            yield datapoint
            del datapoint  # its memory is for the next one

    def _datapoint(self, epoch: Epoch, index: int) -> Any:
        begin = perf_counter(), thread_time()
        try:
            return self.ds._datapoint(self._below(epoch), index)
        finally:
            self._add(begin)
            self.count += 1

    def _columns(self) -> Columns | None:
        return self.ds._columns()

    def _gather(self, epoch: Epoch, wanted: range, out: Sequence[np.ndarray]) -> None:
        begin = perf_counter(), thread_time()
        self.ds._gather(self._below(epoch), wanted, out)
        self._add(begin)
        self.count += len(wanted)

    def _add(self, begin: tuple[float, float]) -> None:
        self.seconds += perf_counter() - begin[0]
        self.computing += thread_time() - begin[1]

    def _children(self) -> tuple[DataFlow, ...]:
        return (self.ds,)  # not the parent

    def _name(self) -> str:
        return self.ds._name()


def _time_children(
    flow: DataFlow,
    parent: StageTimer | None,
    workers: int,
    timers: list[StageTimer],
    undo: list[tuple[DataFlow, str, Any]],
) -> None:
    for name, value in list(vars(flow).items()):
        if not flows_in(value, DataFlow):
            continue
        members: Any = value if isinstance(value, (list, tuple)) else (value,)
        replaced = [
            _time(member, parent, workers, timers, undo) if isinstance(member, DataFlow) else member
            for member in members
        ]
        undo.append((flow, name, value))
        setattr(flow, name, type(value)(replaced) if members is value else replaced[0])


def _time(
    flow: DataFlow,
    parent: StageTimer | None,
    workers: int,
    timers: list[StageTimer],
    undo: list[tuple[DataFlow, str, Any]],
) -> StageTimer:
    here = below = workers
    while isinstance(flow, ParallelFlow):
        here = max(here, 1) * flow._num_workers
        below = workers if flow._reads_here else here
        flow = flow.ds
        flow.reset_state()
    timer = StageTimer(flow, parent, here)
    timers.append(timer)
    _time_children(flow, timer, below, timers, undo)
    return timer
