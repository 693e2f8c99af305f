"""Chooses how a DataFlow gets into the graph fastest."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from typing import Any, final

from towerpack_dataflow import (
    MultiProcessMapAndBatchData,
    MultiProcessMapData,
    MultiProcessRunner,
    MultiThreadMapData,
    MultiThreadRunner,
)

from ._source import InputSource
from .queued import QueueInput
from .staged import StagingInput

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
# A larger flow is not put into a worker unasked: it would be in memory twice.
_MOST_BYTES_TO_SEND = 2**28


def input_for(flow: Any, on_gpu: bool = False) -> InputSource:
    """Returns the fastest input source for a flow: the one that trainers make for `dataflow=`.

    It is a `QueueInput`; for GPUs, one inside a `StagingInput`, so that the copy to the device is done ahead
    of the step. A flow whose Python work would hold up the training steps is moved into a worker process
    (`MultiProcessRunner(flow, 1)`): its datapoints, their order and its saved position stay the same. The
    move is made, and logged, where

    - the flow is addressable, so that a few datapoints can be made to measure it without using any up,
    - each datapoint takes a millisecond or more of processor time,
    - the flow has no workers or threads of its own yet,
    - the flow can be pickled, and is below 256 MB,
    - and there is a second processor.

    In the worker, the flow's functions see this process's objects as they were at the start.
    To keep the flow in this process, or to give it more workers, make the source yourself:
    `QueueInput(flow)`, `QueueInput(MultiProcessRunner(flow, 4))`.

    Args:
        flow: a DataFlow, or another iterable that can be iterated again.
        on_gpu: whether the tensors are used on GPUs. (Not run on GPUs by our tests.)

    Raises:
        TypeError: the flow cannot be iterated again.
    """
    source = QueueInput(_beside_steps(flow))
    return StagingInput(source) if on_gpu else source


def _beside_steps(flow: Any) -> Any:
    """Returns the flow, in a worker if its work would hold up steps."""
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
    """Yields the flow and the flows below it."""
    while flow is not None:
        yield flow
        flow = getattr(flow, "ds", None)


def _processor_time(flow: Any) -> float:
    """Returns the seconds of processor time for one datapoint; 0 where they cannot be measured."""
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
    except Exception:  # a flow that fails is to fail in the training, with the datapoint's number
        return 0.0
    return (time.thread_time() - computed) / done


def _processors() -> int:
    """Returns how many processors this process may use; macOS has no affinity to restrict them."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _reason_to_stay(flow: Any) -> str | None:
    """Returns why a flow cannot go into a worker, or None if it can."""
    import cloudpickle

    sized = _SizeLimitedFile()
    try:
        cloudpickle.Pickler(sized, protocol=5, buffer_callback=sized.put).dump(flow)
    except _TooLargeError:
        return f"it holds more than {_MOST_BYTES_TO_SEND >> 20} MB, which a worker would hold again"
    except Exception as error:  # whatever pickling a user's objects raises
        return f"it cannot be pickled ({type(error).__name__}: {error})"
    return None


class _TooLargeError(Exception):
    """A pickle is larger than a worker is sent unasked."""


@final
class _SizeLimitedFile:
    """A file that counts the bytes written to it, and keeps none of them."""

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
            raise _TooLargeError
