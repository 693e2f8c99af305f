"""Chooses how a DataFlow gets into the graph fastest."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from typing import Any

from towerpack_dataflow import (
    MultiProcessMapAndBatchData,
    MultiProcessMapData,
    MultiProcessRunner,
    MultiThreadMapData,
    MultiThreadRunner,
)

from ._source import InputSource
from .queued._queue_input import QueueInput
from .staged._staging_input import StagingInput

__all__ = ["input_for"]

_log = logging.getLogger("towerpack_inputsource")

_PARALLEL = (
    MultiProcessMapAndBatchData,
    MultiProcessMapData,
    MultiProcessRunner,
    MultiThreadMapData,
    MultiThreadRunner,
)
# A thread keeps the interpreter for up to 5 ms while a step that has finished waits for it. Below this much
# work for a datapoint a step hardly ever meets it; above, a worker's 0.1 ms for handing it over are cheaper.
_HOLDS_UP_STEPS = 1e-3
_SECONDS_TO_MEASURE, _MOST_TO_MEASURE = 0.1, 8
# More than this is not put into a worker without being asked: it would be in memory twice.
_MOST_BYTES_TO_SEND = 2**28


def input_for(flow: Any, on_gpu: bool = False) -> InputSource:
    """Returns the fastest input source for a flow: what trainers make of `dataflow=`.

    It is a `QueueInput`; for GPUs, one inside a `StagingInput`, so that the copy to the device is done ahead
    of the step. A flow whose Python work would hold up the training steps is moved into a worker process
    (`MultiProcessRunner(flow, 1)`): its datapoints, their order and its saved position stay the same. That
    is done, and logged, where

    - it is addressable, so that some datapoints can be made to measure it without any being used up,
    - each takes a millisecond or more of processor time,
    - it has no workers or threads of its own yet,
    - it can be pickled, and is below 256 MB,
    - and there is a second processor.

    What its functions read of this process then stays as it was at the start.
    To keep it in this process, or to give it more workers, make the source oneself: `QueueInput(flow)`,
    `QueueInput(MultiProcessRunner(flow, 4))`.

    Args:
        flow: a DataFlow, or another iterable that can be iterated again.
        on_gpu: whether the tensors are used on GPUs. (Not run on GPUs by our tests.)

    Raises:
        TypeError: if the flow cannot be iterated again.
    """
    source = QueueInput(_beside_steps(flow))
    return StagingInput(source) if on_gpu else source


def _beside_steps(flow: Any) -> Any:
    """The flow, in a worker if its work would hold up steps."""
    if not getattr(flow, "addressable", False) or any(isinstance(part, _PARALLEL) for part in _chain(flow)):
        return flow
    seconds = _processor_time(flow)
    if seconds < _HOLDS_UP_STEPS or _processors() < 2:
        return flow
    work = f"Each datapoint of {flow!r} takes {1e3 * seconds:.1f} ms of processor time"
    if (reason := _reason_to_stay(flow)) is not None:
        _log.info("%s, which holds up training steps, but it stays in this process: %s.", work, reason)
        return flow
    _log.info("%s, so it runs in a worker process. data=QueueInput(flow) would keep it in this one.", work)
    return MultiProcessRunner(flow, 1)


def _chain(flow: Any) -> Iterator[Any]:
    """The flow and those below it."""
    while flow is not None:
        yield flow
        flow = getattr(flow, "ds", None)


def _processor_time(flow: Any) -> float:
    """Seconds of processor time for one datapoint; 0 where that cannot be told."""
    try:
        count = min(len(flow), _MOST_TO_MEASURE)
        if count < 2:
            return 0.0
        flow.datapoint(0, 0)  # the first one opens files and imports modules
        begin, computed = time.perf_counter(), time.thread_time()
        for done in range(1, count):
            flow.datapoint(0, done)
            if time.perf_counter() - begin > _SECONDS_TO_MEASURE:
                break
    except Exception:  # a flow that fails shall do so in the training, with the datapoint's number
        return 0.0
    return (time.thread_time() - computed) / done


def _processors() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def _reason_to_stay(flow: Any) -> str | None:
    import cloudpickle

    scales = _Scales()
    try:
        cloudpickle.Pickler(scales, protocol=5, buffer_callback=scales.put).dump(flow)
    except _TooHeavyError:
        return f"it holds more than {_MOST_BYTES_TO_SEND >> 20} MB, which a worker would hold again"
    except Exception as error:  # whatever pickling a user's objects raises
        return f"it cannot be pickled ({type(error).__name__}: {error})"
    return None


class _TooHeavyError(Exception):
    pass


class _Scales:
    """A file that weighs what is written to it, and keeps nothing."""

    def __init__(self) -> None:
        self._bytes = 0

    def write(self, data: Any) -> int:
        size = memoryview(data).nbytes
        self._add(size)
        return size

    def put(self, buffer: Any) -> None:
        self._add(buffer.raw().nbytes)

    def _add(self, size: int) -> None:
        self._bytes += size
        if self._bytes > _MOST_BYTES_TO_SEND:
            raise _TooHeavyError
