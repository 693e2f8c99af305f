"""The interfaces of a worker's code: two kinds of tasks, services without tasks, and their messages."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import Any, NamedTuple, final

from ...batch._buffer_pool import BatchAllocator
from ...flow._epoch import Epoch, as_lists
from ...flow._flow import DataFlow
from ...flow._flow_state import seeds_below
from ...flow._resume_marks import Marks
from .._spans import Spans, trace_directory
from ..transport._channel import Channel
from ..transport._remote_errors import Failure, pack_error

__all__ = [
    "ATTEMPTS",
    "PassSpec",
    "TaskHandler",
    "TaskResult",
    "WorkerInfo",
    "WorkerService",
    "get_worker_info",
    "marks_throughout",
    "set_thread_info",
    "set_worker_info",
]


@final
class PassSpec(NamedTuple):
    """All values that determine the datapoints of a pass.

    Attributes:
        epoch, outer_epoch, seed, path, marks: the arguments of an `Epoch`.
        seeds: seeds of flows further down, by place.
        addressable: whether tasks may be handed out in any order.
        trace: the directory where workers write spans; empty for none.
    """

    epoch: int
    outer_epoch: int
    seed: int
    path: tuple[int, ...]
    marks: Marks
    seeds: dict[str, int]
    addressable: bool
    trace: str = ""

    @classmethod
    def of(cls, epoch: Epoch, flow: DataFlow | None) -> PassSpec:
        """Describes the pass `epoch` over `flow`."""
        seeds = {} if flow is None else seeds_below(flow)
        addressable = flow is None or flow.addressable
        marks = as_lists(epoch.marks)
        trace = trace_directory()
        return cls(int(epoch), epoch.outer_epoch, epoch.seed, epoch.path, marks, seeds, addressable, trace)

    def to_epoch(self) -> Epoch:
        """Makes the epoch, with separate marks."""
        return Epoch(self.epoch, self.seed, self.path, as_lists(self.marks), self.outer_epoch)

    def same_pass(self, other: PassSpec) -> bool:
        """Tells whether the datapoints and their trace are the same; marks do not change the datapoints."""
        return self._replace(marks={}) == other._replace(marks={})


@final
class TaskResult(NamedTuple):
    """The result of a task: a range of datapoints of one pass. The datapoints are sent along with it.

    Attributes:
        number: number of the pass.
        begin, end: bounds of the processed datapoints.
        seconds: time it took.
        ended: whether the pass has ended.
        going_on: whether the worker continues with the rest of the range: a stream cannot be handed to
            others.
        marks: for a stream: the marks to resume from anywhere among these datapoints; see `marks_throughout`.
        final_marks: for an ended stream: its last marks.
        unexpected_drop: an addressable flow dropped a datapoint here, so that these indices are invalid.
        skipped: numbers and errors of datapoints skipped because of an error.
        retried: number of datapoints made only after an error.
        failure: the error in place of datapoint `end`.
        logs: warnings, as (level, text).
    """

    number: int
    begin: int
    end: int
    seconds: float = 0.0
    ended: bool = False
    going_on: bool = False
    marks: Marks | None = None
    final_marks: Marks | None = None
    unexpected_drop: bool = False
    skipped: tuple[tuple[int, str], ...] = ()
    retried: int = 0
    failure: Failure | None = None
    logs: tuple[tuple[int, str], ...] = ()


def marks_throughout(before: Marks, after: Marks) -> Marks:
    """Returns the marks valid from `before` a range to `after` it.

    Marks made before serve any later place. New ones show that a flow drops datapoints; a reader of the state
    needs this even if they stand too far ahead to resume from.
    """
    return {**as_lists(after), **before}


@final
class WorkerInfo(NamedTuple):
    """The number of a worker, for code running in it.

    Attributes:
        number: from 0 to `num_workers - 1`.
        num_workers: number of workers of the runner.

    Example:
        >>> WorkerInfo(number=1, num_workers=4)._asdict()
        {'number': 1, 'num_workers': 4}
    """

    number: int
    num_workers: int


@final
class _CurrentWorker(threading.local):
    """The worker of a thread; by default that of its process, an attribute of the class."""

    info: WorkerInfo | None = None


_HERE = _CurrentWorker()


def get_worker_info() -> WorkerInfo | None:
    """Returns the worker, a process or a thread, that runs the calling code; `None` outside workers.

    Datapoints do not depend on it: they are the same for any number of workers. Use it for file names, log
    messages and the choice of a device.

    Example:
        >>> get_worker_info() is None
        True
    """
    return _HERE.info


def set_worker_info(info: WorkerInfo) -> None:
    """Sets the worker of this process; called once in each worker process."""
    _CurrentWorker.info = info


def set_thread_info(info: WorkerInfo) -> None:
    """Sets the worker of this thread; called once in each worker thread."""
    _HERE.info = info


ATTEMPTS = 3  # with on_error="retry", in all


class TaskHandler(ABC):
    """Makes datapoints in all workers of one runner; sent to them once.

    Args:
        on_error: "raise", "skip" or "retry".

    Attributes:
        on_error: the handling of a datapoint that cannot be made or sent.
        work: the name of its activity in a trace.
        entropy: the seed of the workers' global random generators, together with a worker's number.
        divides: whether several workers make datapoints of a pass.
    """

    work = "produce"
    entropy: tuple[int, ...] = ()
    divides = True

    def __init__(self, on_error: str) -> None:
        """Stores the policy."""
        self.on_error = on_error
        self._in_thread = False

    def packed(self, error: Exception, flow: DataFlow | None = None) -> Failure:
        """Packs an error; an error that stays in the process needs no pickle."""
        return pack_error(error, flow, in_process=self._in_thread)

    @abstractmethod
    def contents(self) -> dict[str, Any]:
        """Returns the parts sent to the workers, under the names that users know."""

    @abstractmethod
    def in_thread(self) -> Any:
        """Returns this handler, directly after its shallow copy for a thread."""

    def prepare(self, memory: BatchAllocator) -> None:
        """Opens files and other resources; called once in the worker, before all other methods."""

    def in_place_of_skipped(self) -> list[Any]:
        """Returns the data sent for a skipped datapoint: nothing, if its number is enough."""
        return []

    def trace(self, spans: Spans) -> None:
        """Records spans of called functions in `spans` from now on, if they are more detailed than `work`."""

    @abstractmethod
    def open(self, number: int, spec: PassSpec) -> None:
        """Starts pass `number`."""

    @abstractmethod
    def close(self, number: int) -> None:
        """Drops pass `number`, which the consumer has left."""

    @abstractmethod
    def make(self, number: int, begin: int, end: int, inputs: Any) -> tuple[TaskResult, list[Any]]:
        """Makes the datapoints of a range, or the first ones."""


class WorkerService(ABC):
    """Runs in all workers of one owner with its own messages, without division of a pass into tasks.

    A service is sent to the workers once, like a `TaskHandler`.
    """

    @abstractmethod
    def contents(self) -> dict[str, Any]:
        """Returns the parts sent to the workers, under the names that users know."""

    @abstractmethod
    def prepare(self, memory: BatchAllocator) -> None:
        """Called once in the worker, before it reports its start."""

    @abstractmethod
    def serve(self, channel: Channel) -> None:
        """Runs until the parent closes the connection.

        Raises:
            PeerGoneError: the parent has closed the connection.
        """
