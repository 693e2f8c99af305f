"""A bounded queue of requests; a worker takes all waiting requests at once. Pure."""

from __future__ import annotations

import threading
from collections import deque
from typing import Generic, TypeVar, final

__all__ = ["ClosedError", "RequestQueue"]

T = TypeVar("T")


@final
class ClosedError(Exception):
    """A request was put into a closed queue."""


@final
class RequestQueue(Generic[T]):
    """Requests of many threads, taken in batches by one or more other threads.

    Args:
        size: the capacity; `put` waits for room.

    Example:
        >>> requests = RequestQueue(10)
        >>> for number in range(3):
        ...     requests.put(number)
        >>> requests.take(2), requests.take(2)
        ([0, 1], [2])
        >>> requests.close()
        >>> requests.take(2)
        []
    """

    def __init__(self, size: int) -> None:
        self._size, self._closed = size, False
        self._requests: deque[T] = deque()
        lock = threading.RLock()
        self._filled, self._emptied = threading.Condition(lock), threading.Condition(lock)

    def put(self, request: T, wait: bool = True) -> None:
        """Adds a request, after waiting for room.

        Args:
            request: the request.
            wait: False adds it even if the queue is full, for threads that take requests.

        Raises:
            ClosedError: the queue is closed, or is closed while this call waits.
        """
        with self._filled:
            while wait and len(self._requests) >= self._size and not self._closed:
                self._emptied.wait()
            if self._closed:
                raise ClosedError
            self._requests.append(request)
            self._filled.notify()

    def take(self, most: int) -> list[T]:
        """Waits for a request, and returns at most `most` waiting requests; none after `close`."""
        with self._filled:
            while not self._requests and not self._closed:
                self._filled.wait()
            taken = [self._requests.popleft() for _ in range(min(most, len(self._requests)))]
            self._emptied.notify(len(taken))
            return taken

    def close(self) -> None:
        """Refuses new requests; waiting ones are still taken."""
        with self._filled:
            self._closed = True
            self._filled.notify_all()
            self._emptied.notify_all()
