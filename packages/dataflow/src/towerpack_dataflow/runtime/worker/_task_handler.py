"""The interfaces of what workers do: the two kinds of tasks, and services that take no tasks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from ...batch import BatchAllocator
from ...flow._flow import DataFlow
from ..tracing import Spans
from ..transport import Channel, Failure, pack_error
from ._task_messages import PassSpec, TaskResult

__all__ = ["ATTEMPTS", "TaskHandler", "WorkerService"]

ATTEMPTS = 3  # with on_error="retry", in all


class TaskHandler(ABC):
    """Makes datapoints in all workers of one runner; travels to them once.

    Args:
        on_error: "raise", "skip" or "retry".

    Attributes:
        on_error: what becomes of a datapoint that cannot be made or sent.
        work: what it does with a stretch, in a trace.
        entropy: what the global random generators of the workers are seeded from, with a worker's number.
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
        """Packs an error; one that stays in the process needs no pickle."""
        return pack_error(error, flow, in_process=self._in_thread)

    @abstractmethod
    def contents(self) -> dict[str, Any]:
        """Returns the parts that travel to the workers, under the names that a user knows them by."""

    @abstractmethod
    def in_thread(self) -> Any:
        """Returns this handler, right after it was copied for a thread that shares the rest with others."""

    def prepare(self, memory: BatchAllocator) -> None:
        """Opens files and so on; called once in the worker, before everything else."""

    def in_place_of_skipped(self) -> list[Any]:
        """Returns what is sent for a datapoint that is left out: nothing, where its number is enough."""
        return []

    def trace(self, spans: Spans) -> None:
        """Has the spans of what it calls added there from now on, where there is more to tell than `work`."""

    @abstractmethod
    def open(self, number: int, spec: PassSpec) -> None:
        """Begins pass `number`."""

    @abstractmethod
    def close(self, number: int) -> None:
        """Forgets pass `number`, which the consumer has left."""

    @abstractmethod
    def make(self, number: int, begin: int, end: int, inputs: Any) -> tuple[TaskResult, list[Any]]:
        """Makes the datapoints of a stretch, or the first of them."""


class WorkerService(ABC):
    """Works in all workers of one owner by messages of its own, where no pass is divided into tasks.

    A service travels to the workers once, as a `TaskHandler` does.
    """

    @abstractmethod
    def contents(self) -> dict[str, Any]:
        """Returns the parts that travel to the workers, under the names that a user knows them by."""

    @abstractmethod
    def prepare(self, memory: BatchAllocator) -> None:
        """Called once in the worker, before it reports that it has started."""

    @abstractmethod
    def serve(self, channel: Channel) -> None:
        """Works until the parent closes the connection.

        Raises:
            PeerGoneError: the parent has closed the connection.
        """
