"""A timer over a flow, for the sums of a diagnosis and the spans of a trace."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from time import perf_counter, thread_time
from typing import Any, final

import numpy as np

from ..batch._batch_data import BatchData
from ..batch._batch_data_by_shape import BatchDataByShape
from ..batch._pad_batch_data import PadBatchData
from ..flow._columns import Columns
from ..flow._epoch import Epoch
from ..flow._flow import DataFlow
from ..flow._node import Effect, flows_in
from ..operators._map_data import MapData
from ..operators._proxy_flow import ProxyDataFlow
from ._spans import NO_SPANS, Spans

__all__ = ["StageTimer", "put_timers", "take_off"]

_Replaced = list[tuple[DataFlow, str, Any]]


@final
class StageTimer(ProxyDataFlow):
    """Times the flow below it, together with all flows below that one.

    Args:
        ds: the flow below.
        parent: the timer over the flow that reads this one.
        workers: how many workers share the flow's work.
        spans: also records each of its times.
    """

    effect = Effect(keeps_place=True, passes_on=True)

    def __init__(
        self, ds: DataFlow, parent: StageTimer | None = None, workers: int = 0, spans: Spans = NO_SPANS
    ) -> None:
        """Starts at zero."""
        super().__init__(ds)
        self.parent = parent
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.workers = workers
        self.spans = spans
        self.count = 0
        self.seconds = self.computing = 0.0
        self._what = ds._name(), _category(ds)

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
            del datapoint  # frees its memory for the next one

    def _datapoint(self, epoch: Epoch, index: int) -> Any:
        begin = perf_counter(), thread_time()
        try:
            return self.ds._datapoint(self._below(epoch), index)
        finally:
            self._add(begin)
            self.count += 1

    def _columns(self) -> Columns | None:
        below = self.ds._columns()
        if below is None:
            return None

        def gather(epoch: Epoch, wanted: range, out: Sequence[np.ndarray]) -> None:
            begin = perf_counter(), thread_time()
            below.gather(self._below(epoch), wanted, out)
            self._add(begin)
            self.count += len(wanted)

        return below._replace(gather=gather)

    def _add(self, begin: tuple[float, float]) -> None:
        self.seconds += perf_counter() - begin[0]
        self.computing += thread_time() - begin[1]
        self.spans.add(*self._what, begin[0])  # on Linux, both clocks are CLOCK_MONOTONIC

    def _name(self) -> str:
        return self.ds._name()


def put_timers(
    flow: DataFlow, timed: Callable[[DataFlow, StageTimer | None], StageTimer], parent: StageTimer | None
) -> _Replaced:
    """Puts `timed(child, parent)` in place of each flow that `flow` reads; `take_off` undoes it."""
    replaced: _Replaced = []
    for name, value in list(vars(flow).items()):
        if not flows_in(value, DataFlow):
            continue
        members: Any = value if isinstance(value, (list, tuple)) else (value,)
        timers = [timed(each, parent) if isinstance(each, DataFlow) else each for each in members]
        replaced.append((flow, name, value))
        setattr(flow, name, type(value)(timers) if members is value else timers[0])
    return replaced


def take_off(replaced: _Replaced) -> None:
    """Puts the original flows back in place of the timers."""
    for holder, name, value in reversed(replaced):
        setattr(holder, name, value)


def _category(flow: DataFlow) -> str:
    if isinstance(flow, (BatchData, BatchDataByShape, PadBatchData)):
        return "collate"
    return "map" if isinstance(flow, MapData) else "produce"
