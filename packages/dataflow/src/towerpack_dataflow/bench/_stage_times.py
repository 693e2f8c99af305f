"""Where the time goes: a stopwatch on every flow of a tree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter, thread_time
from typing import TYPE_CHECKING, Any, NamedTuple

from ..flow._epoch import Epoch
from ..flow._flow import DataFlow, flows_in
from ..operators._proxy_flow import ProxyDataFlow

if TYPE_CHECKING:
    import numpy as np

    from ..flow._columns import Columns


class Stage(NamedTuple):
    """What one flow of a tree did while it was measured, in one process.

    Attributes:
        name: of the flow.
        depth: how far below the root it is.
        workers: how many worker processes share its work in the real flow; 0: it works in the consumer's.
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
def watched(flow: DataFlow) -> Iterator[list[Stopwatch]]:
    """While inside, the flows below `flow` are watched; yields their stopwatches, parents first.

    Flows with worker processes are left out of the way: what they would run there runs here.
    """
    undo: list[tuple[DataFlow, str, Any]] = []
    watches: list[Stopwatch] = []
    try:
        _watch_children(flow, None, 0, watches, undo)
        yield watches
    finally:
        for holder, name, value in reversed(undo):
            setattr(holder, name, value)


def stages(watches: list[Stopwatch]) -> list[Stage]:
    """What the stopwatches show, each flow's own time apart from that of the flows below it."""
    found = []
    for watch in watches:
        below = [other for other in watches if other.parent is watch]
        waiting = sum(other.seconds for other in below)
        busy = max(watch.seconds - waiting, 0.0)
        computing = min(max(watch.computing - sum(other.computing for other in below), 0.0), busy)
        name = watch.ds._name()
        found.append(Stage(name, watch.depth, watch.workers, watch.count, busy, computing, waiting))
    return found


class Stopwatch(ProxyDataFlow):
    """Times the flow below it, and all that flow stands on."""

    _transparent = True
    _passes_on = True

    def __init__(self, ds: DataFlow, parent: Stopwatch | None, workers: int) -> None:
        """Stands at zero."""
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


def _watch_children(
    flow: DataFlow,
    parent: Stopwatch | None,
    workers: int,
    watches: list[Stopwatch],
    undo: list[tuple[DataFlow, str, Any]],
) -> None:
    for name, value in list(vars(flow).items()):
        if not flows_in(value):
            continue
        members: Any = value if isinstance(value, (list, tuple)) else (value,)
        replaced = [
            _watch(member, parent, workers, watches, undo) if isinstance(member, DataFlow) else member
            for member in members
        ]
        undo.append((flow, name, value))
        setattr(flow, name, type(value)(replaced) if members is value else replaced[0])


def _watch(
    flow: DataFlow,
    parent: Stopwatch | None,
    workers: int,
    watches: list[Stopwatch],
    undo: list[tuple[DataFlow, str, Any]],
) -> Stopwatch:
    from ..runtime import MultiProcessMapData
    from ..runtime._parallel_flow import ParallelFlow

    here = below = workers
    while isinstance(flow, ParallelFlow):
        here = max(here, 1) * flow._num_workers
        below = workers if isinstance(flow, MultiProcessMapData) else here
        flow = flow.ds
        flow.reset_state()
    watch = Stopwatch(flow, parent, here)
    watches.append(watch)
    _watch_children(flow, watch, below, watches, undo)
    return watch
