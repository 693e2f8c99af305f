"""What all workers of a runner do; `Reading` and `Mapping` are the two kinds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from ...batch._batch_allocator import BatchAllocator as Memory
from ._task_messages import Answer, Spec

ATTEMPTS = 3  # with on_error="retry", in all


class Work(ABC):
    """What all workers of one runner do; travels to them once.

    Args:
        on_error: "raise", "skip" or "retry".
    """

    def __init__(self, on_error: str) -> None:
        """Remembers the policy."""
        self._on_error = on_error

    @abstractmethod
    def contents(self) -> dict[str, Any]:
        """What travels to the workers, under the names that a user knows it by."""

    @abstractmethod
    def in_thread(self) -> Any:
        """Itself, right after it was copied for a thread that shares the rest with others."""

    def prepare(self, memory: Memory) -> None:
        """Called once in the worker, before everything else."""

    @abstractmethod
    def open(self, number: int, spec: Spec) -> None:
        """Pass `number` begins."""

    @abstractmethod
    def close(self, number: int) -> None:
        """Nobody wants more of that pass."""

    @abstractmethod
    def make(self, number: int, begin: int, end: int, inputs: Any) -> tuple[Answer, list[Any]]:
        """Deals with a stretch, or with its beginning."""
