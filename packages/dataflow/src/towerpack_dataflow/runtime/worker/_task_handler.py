"""The interface of `ReadTaskHandler` and `MapTaskHandler`, the two kinds of tasks that workers have."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from ...batch import BatchAllocator
from ._task_messages import PassSpec, TaskResult

__all__ = ["ATTEMPTS", "TaskHandler"]

ATTEMPTS = 3  # with on_error="retry", in all


class TaskHandler(ABC):
    """Makes datapoints in all workers of one runner; travels to them once.

    Args:
        on_error: "raise", "skip" or "retry".
    """

    def __init__(self, on_error: str) -> None:
        """Stores the policy."""
        self._on_error = on_error

    @abstractmethod
    def contents(self) -> dict[str, Any]:
        """Returns the parts that travel to the workers, under the names that a user knows them by."""

    @abstractmethod
    def in_thread(self) -> Any:
        """Returns this handler, right after it was copied for a thread that shares the rest with others."""

    def prepare(self, memory: BatchAllocator) -> None:
        """Opens files and so on; called once in the worker, before everything else."""

    @abstractmethod
    def open(self, number: int, spec: PassSpec) -> None:
        """Begins pass `number`."""

    @abstractmethod
    def close(self, number: int) -> None:
        """Forgets pass `number`, which the consumer has left."""

    @abstractmethod
    def make(self, number: int, begin: int, end: int, inputs: Any) -> tuple[TaskResult, list[Any]]:
        """Makes the datapoints of a stretch, or the first of them."""
