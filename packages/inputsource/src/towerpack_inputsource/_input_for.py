"""Chooses how a DataFlow gets into the graph fastest."""

from __future__ import annotations

import os
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
from .prefetch import MeasuredFlow, is_live
from .queued import QueueInput
from .staged import StagingInput

__all__ = ["input_for"]

_PARALLEL = (
    MultiProcessMapAndBatchData,
    MultiProcessMapData,
    MultiProcessRunner,
    MultiThreadMapData,
    MultiThreadRunner,
)
# A larger flow is not put into a worker unasked: it would be in memory twice.
_MOST_BYTES_TO_SEND = 2**28


def input_for(flow: Any, on_gpu: bool = False) -> InputSource:
    """Returns the fastest input source for a flow: the one that trainers make for `dataflow=`.

    It is a `QueueInput`; for GPUs, one inside a `StagingInput`, so that the copy to the device is done ahead
    of the step. A flow whose Python work would hold up the training steps is moved into a worker process
    (`MultiProcessRunner(flow, 1)`): its datapoints, their order and its saved position stay the same. The
    first datapoints of the training measure it, so nothing is made that is not used. The move is made when
    the session starts, and logged, where

    - the flow is addressable, so that the worker can go on behind them,
    - each datapoint takes a millisecond or more of processor time,
    - the flow has no workers or threads of its own yet,
    - the flow can be pickled, and is below 256 MB,
    - and there is a second processor.

    In the worker, the flow's functions see this process's objects as they were when it moved.
    To keep the flow in this process, or to give it more workers, make the source yourself:
    `QueueInput(flow)`, `QueueInput(MultiProcessRunner(flow, 4))`.

    Args:
        flow: a DataFlow, or another iterable that can be iterated again.
        on_gpu: whether the tensors are used on GPUs. (Not run on GPUs by our tests.)

    Raises:
        TypeError: the flow cannot be iterated again.
    """
    source = QueueInput(MeasuredFlow(flow, _reason_to_stay) if _may_move(flow) else flow)
    return StagingInput(source) if on_gpu else source


def _may_move(flow: Any) -> bool:
    """Returns whether a flow can be measured, and whether another process would have room for it."""
    if not getattr(flow, "addressable", False) or is_live(flow) or _processors() < 2:
        return False
    return not any(isinstance(part, _PARALLEL) for part in _chain(flow))


def _chain(flow: Any) -> Iterator[Any]:
    """Yields the flow and the flows below it."""
    while flow is not None:
        yield flow
        flow = getattr(flow, "ds", None)


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
