"""Waiting for workers, by one thread at a time; another thread can wake it."""

from __future__ import annotations

import contextlib
import select
import socket
from collections.abc import Sequence
from typing import Any, final

from ._worker_handle import WorkerHandle

__all__ = ["LONGEST_WAIT", "WorkerPoll"]

LONGEST_WAIT = 1e5  # seconds; the system does not accept infinity, and waiting again is free
_IN, _OUT = getattr(select, "POLLIN", 1), getattr(select, "POLLOUT", 4)


@final
class WorkerPoll:
    """Waits until a worker has sent a message, has room for pending data, or has ended.

    The socket that wakes the waiting thread lives as long as this object, which that thread holds: so the
    number of its descriptor is not reused for another file meanwhile.

    Raises:
        OSError: this process is out of file descriptors.
    """

    def __init__(self) -> None:
        """Starts without workers."""
        self._awake, self._bell = socket.socketpair()
        self._awake.setblocking(False)
        self._bell.setblocking(False)
        self._poll: Any = select.poll() if hasattr(select, "poll") else _Select()
        self._poll.register(self._awake.fileno(), _IN)
        self._numbers: dict[int, int] = {}
        self._sending: set[int] = set()

    def watch(self, worker: WorkerHandle) -> None:
        """Watches a worker from the next `wait` on."""
        for descriptor in worker.descriptors:
            self._poll.register(descriptor, _IN)
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
                self._poll.modify(descriptor, _IN | _OUT if worker.channel.pending else _IN)

    def wait(self, seconds: float) -> list[int] | None:
        """Returns the numbers of the workers with events; `None` after a timeout.

        The list is empty if `wake` was called.
        """
        events = self._poll.poll(min(max(seconds, 0.0), LONGEST_WAIT) * 1000)
        if not events:
            return None
        with contextlib.suppress(BlockingIOError):
            self._awake.recv(4096)
        found = {self._numbers.get(descriptor) for descriptor, _ in events}
        return sorted(number for number in found if number is not None)

    def wake(self) -> None:
        """Makes the waiting thread, or the next one, return at once."""
        with contextlib.suppress(BlockingIOError):
            self._bell.send(b"!")

    def __del__(self) -> None:
        """Closes the sockets."""
        if hasattr(self, "_bell"):
            self._awake.close()
            self._bell.close()


class _Select:
    """Replaces `select.poll` on Windows, which has `select.select` alone."""

    def __init__(self) -> None:
        self._watched: dict[int, int] = {}

    def register(self, descriptor: int, events: int) -> None:
        self._watched[descriptor] = events

    modify = register

    def unregister(self, descriptor: int) -> None:
        del self._watched[descriptor]

    def poll(self, milliseconds: float) -> list[tuple[int, int]]:
        reads = list(self._watched)
        writes = [descriptor for descriptor, events in self._watched.items() if events & _OUT]
        readable, writable, _ = select.select(reads, writes, [], milliseconds / 1000)
        return [(descriptor, _IN) for descriptor in {*readable, *writable}]
