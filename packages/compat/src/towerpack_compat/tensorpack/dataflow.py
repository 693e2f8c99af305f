"""`tensorpack.dataflow`, where Towerpack has no counterpart."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from towerpack_dataflow import DataFlow

__all__ = ["DataFromQueue"]


class DataFromQueue(DataFlow):
    """Yields what a queue gives, without end.

    Args:
        queue: anything with a method `get`.
    """

    def __init__(self, queue: Any) -> None:
        super().__init__()
        self.queue = queue

    def __iter__(self) -> Iterator[Any]:
        while True:
            yield self.queue.get()
