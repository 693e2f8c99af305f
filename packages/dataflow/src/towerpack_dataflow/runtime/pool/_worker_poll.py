"""Waiting for workers, by one thread at a time; another thread can wake it."""

from __future__ import annotations

import contextlib
import os
import select
from collections.abc import Callable, Sequence
from typing import final

from ._worker_handle import WorkerHandle

__all__ = ["LONGEST_WAIT", "WorkerPoll"]

LONGEST_WAIT = 1e5  # seconds; the system does not accept infinity, and waiting again is free


@final
class WorkerPoll:
    """Waits until a worker has sent a message, has room for pending data, or has ended.

    The descriptor that wakes the waiting thread lives as long as this object, which that thread holds: so the
    number of the descriptor is not reused for another file meanwhile.

    Raises:
        OSError: this process is out of file descriptors.
    """

    def __init__(self) -> None:
        """Starts without workers."""
        self._awake = self._bell = -1
        self._awake, self._bell = os.pipe()
        os.set_blocking(self._awake, False)
        os.set_blocking(self._bell, False)
        self._poll = select.poll()
        self._poll.register(self._awake, select.POLLIN)
        self._numbers: dict[int, int] = {}
        self._sending: set[int] = set()

    def watch(self, worker: WorkerHandle) -> None:
        """Watches a worker from the next `wait` on."""
        for descriptor in worker.descriptors:
            self._poll.register(descriptor, select.POLLIN)
            self._numbers[descriptor] = worker.number

    def forget(self, worker: WorkerHandle) -> None:
        """Stops watching a worker, before its descriptors are closed."""
        for descriptor in worker.descriptors:
            self._poll.unregister(descriptor)
            del self._numbers[descriptor]
            self._sending.discard(descriptor)

    def watch_sends(self, workers: Sequence[WorkerHandle]) -> None:
        """Also waits, from now on, for room for pending data."""
        for worker in workers:
            descriptor = worker.channel.socket.fileno()
            if worker.channel.pending != (descriptor in self._sending):
                self._sending ^= {descriptor}
                out = select.POLLOUT if worker.channel.pending else 0
                self._poll.modify(descriptor, select.POLLIN | out)

    def wait(self, seconds: float) -> list[int] | None:
        """Returns the numbers of the workers with events; `None` after a timeout.

        The list is empty if `wake` was called.
        """
        events = self._poll.poll(min(max(seconds, 0.0), LONGEST_WAIT) * 1000)
        if not events:
            return None
        with contextlib.suppress(BlockingIOError):
            os.read(self._awake, 4096)
        found = {self._numbers.get(descriptor) for descriptor, _ in events}
        return sorted(number for number in found if number is not None)

    def wake(self) -> None:
        """Makes the waiting thread, or the next one, return at once."""
        with contextlib.suppress(BlockingIOError):
            os.write(self._bell, b"!")

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        """Closes the descriptors; keeps `close`, since `os` may no longer exist when the interpreter ends."""
        for descriptor in (self._awake, self._bell):
            if descriptor >= 0:
                close(descriptor)
