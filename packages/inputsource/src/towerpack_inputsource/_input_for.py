"""Chooses the fastest input source for a DataFlow."""

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
from ._staging_input import StagingInput
from .prefetch import MeasuredFlow, is_live
from .queued import QueueInput

__all__ = ["input_for"]

_PARALLEL = (
    MultiProcessMapAndBatchData,
    MultiProcessMapData,
    MultiProcessRunner,
    MultiThreadMapData,
    MultiThreadRunner,
)
# A larger flow is not moved to a worker automatically, since it would be in memory twice.
_MOST_BYTES_TO_SEND = 2**28


def input_for(flow: Any, on_gpu: bool = False) -> InputSource:
    """Returns the fastest input source for a flow, as used by trainers for `dataflow=`.

    It is a `QueueInput`; for GPUs, a `StagingInput` around it, which copies to the device ahead of the step.
    A flow with Python work that would delay the training steps is moved to a worker process
    (`MultiProcessRunner(flow, 1)`): its datapoints, their order and its saved position are unchanged. The
    measurement uses the first datapoints of the training, so no datapoint is wasted. The move happens when
    the session starts, and is logged, if

    - the flow is addressable, so that the worker can continue after them,
    - each datapoint takes a millisecond or more of processor time,
    - the flow has no workers or threads yet,
    - the flow can be pickled and is smaller than 256 MB,
    - and a second processor is available.

    In the worker, the flow's functions use copies of this process's objects from the time of the move. To
    keep the flow in this process, or to use more workers, create the source explicitly: `QueueInput(flow)`,
    `QueueInput(MultiProcessRunner(flow, 4))`.

    Args:
        flow: a DataFlow, or another re-iterable object.
        on_gpu: whether the tensors are used on GPUs. (Not run on GPUs by our tests.)

    Raises:
        TypeError: the flow cannot be iterated again.
    """
    source = QueueInput(MeasuredFlow(flow, _reason_to_stay) if _may_move(flow) else flow)
    return StagingInput(source) if on_gpu else source


def _may_move(flow: Any) -> bool:
    """Returns whether a flow can be measured and a processor is available for a worker."""
    if not getattr(flow, "addressable", False) or is_live(flow) or _processors() < 2:
        return False
    return not any(isinstance(part, _PARALLEL) for part in _chain(flow))


def _chain(flow: Any) -> Iterator[Any]:
    """Yields the flow and the flows below it."""
    while flow is not None:
        yield flow
        flow = getattr(flow, "ds", None)


def _processors() -> int:
    """Returns the number of processors available to this process; macOS has no CPU affinity."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _reason_to_stay(flow: Any) -> str | None:
    """Returns the reason why a flow cannot be moved to a worker, or None if it can."""
    import cloudpickle

    sized = _SizeLimitedFile()
    try:
        cloudpickle.Pickler(sized, protocol=5, buffer_callback=sized.put).dump(flow)
    except _TooLargeError:
        return f"it holds more than {_MOST_BYTES_TO_SEND >> 20} MB, which a worker would duplicate"
    except Exception as error:  # pickling a user's objects may raise any error
        return f"it cannot be pickled ({type(error).__name__}: {error})"
    return None


class _TooLargeError(Exception):
    """A pickle exceeds the limit for an automatic move."""


@final
class _SizeLimitedFile:
    """A file that counts the bytes written to it and discards them."""

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
