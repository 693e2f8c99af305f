"""A worker on a Ray cluster: the code in the actor's process, and its results."""

from __future__ import annotations

import pickle
from typing import Any, NamedTuple, final

import numpy as np

from ...batch._buffer_pool import BatchAllocator
from ..transport._collected_datapoints import from_table
from ..transport._flow_pickle import dump_out_of_band
from ..transport._remote_errors import Failure, pack_error
from ..worker._process_end import one_thread_per_library, seed_global_generators
from ..worker._single_sends import SingleSends
from ..worker._task_handler import PassSpec, TaskHandler, TaskResult, WorkerInfo, set_worker_info

__all__ = ["RayMessage", "RayPart", "RayWorker"]


@final
class RayPart(NamedTuple):
    """A part of a task's datapoints.

    Attributes:
        result: a `TaskResult`, as a tuple.
        pickled: the datapoints; empty without datapoints.
        buffers: their large arrays.
    """

    result: tuple[Any, ...]
    pickled: bytes
    buffers: list[np.ndarray]


@final
class RayMessage:
    """The received datapoints of a part.

    Attributes:
        size: their bytes.
    """

    def __init__(self, part: RayPart) -> None:
        """Stores the part; unpickles nothing."""
        self._part = part
        self.size = len(part.pickled) + sum(buffer.nbytes for buffer in part.buffers)

    def open(self, read_only: bool = False) -> list[Any]:
        """Returns the datapoints; read-only ones are in Ray's shared memory, others are copies."""
        buffers = self._part.buffers if read_only else map(np.array, self._part.buffers)
        return from_table(pickle.loads(self._part.pickled, buffers=buffers)) or []


@final
class RayWorker:
    """Runs tasks in the order of submission; Ray turns it into an actor.

    Args:
        number: number of the worker.
        total: number of workers.
        payload: the function to call first and the handler, pickled, and their large buffers.
    """

    def __init__(self, number: int, total: int, payload: tuple[bytes, list[np.ndarray]]) -> None:
        """Does nothing before the first task, which can then report errors of the setup."""
        self._info = WorkerInfo(number, total)
        self._payload: tuple[bytes, list[np.ndarray]] | None = payload
        self._handler: TaskHandler
        self._open: set[int] = set()

    def make(
        self, number: int, spec: tuple[Any, ...] | None, begin: int, end: int
    ) -> list[RayPart] | Failure:
        """Makes the datapoints of a range, or the first ones.

        Args:
            number: number of the pass.
            spec: a `PassSpec` as a tuple, with the first task of a pass.
            begin: the first datapoint.
            end: the one after the last.

        Returns:
            the parts; or the error that prevents this worker from working.
        """
        try:
            self._prepare()
        except Exception as error:
            return pack_error(error)
        if spec is not None:
            self._handler.open(number, PassSpec(*spec))
            self._open.add(number)
        parts: list[RayPart] = []
        going_on = True
        while going_on:  # a stream returns a part in time, and the rest must follow here
            result, made = self._handler.make(number, begin, end, None)
            self._add(parts, result, made)
            begin, going_on = result.end, result.going_on and TaskResult(*parts[-1].result).failure is None
        last = parts.pop()
        return [*parts, last._replace(result=tuple(TaskResult(*last.result)._replace(going_on=False)))]

    def close(self, number: int) -> None:
        """Drops a pass."""
        if number in self._open:
            self._open.remove(number)
            self._handler.close(number)

    def _prepare(self) -> None:
        if self._payload is None:
            return
        pickled, buffers = self._payload
        # Ray's memory is read-only, and a flow may write to its own objects.
        init, handler = pickle.loads(pickled, buffers=map(np.array, buffers))
        set_worker_info(self._info)
        one_thread_per_library(set())
        seed_global_generators(handler.entropy, self._info.number)
        if init is not None:
            init(self._info.number)
        handler.prepare(BatchAllocator())
        self._handler, self._payload = handler, None

    def _add(self, parts: list[RayPart], result: TaskResult, made: Any) -> None:
        def send(result: TaskResult, datapoints: Any) -> None:
            parts.append(_part(result, datapoints, result.going_on))

        try:
            send(result, made)
        except Exception:  # any error from pickling user objects
            if result.begin == result.end:
                raise
            SingleSends(send, self._handler, None).deliver(result, from_table(made))


def _part(result: TaskResult, datapoints: Any, copied: bool) -> RayPart:
    """Pickles datapoints; copies their arrays if the flow may write to them before Ray has sent them."""
    if not datapoints:
        return RayPart(tuple(result), b"", [])
    raws: list[memoryview] = []
    pickled = dump_out_of_band(datapoints, raws, by_value=True)
    buffers = [np.frombuffer(raw, np.uint8) for raw in raws]
    return RayPart(tuple(result), pickled, [np.array(buffer) for buffer in buffers] if copied else buffers)
