"""Waiting for workers: one thread at a time does, and another one can wake it up."""

from __future__ import annotations

import contextlib
import os
import select
from collections.abc import Callable, Sequence
from typing import final

from ._worker_handle import WorkerHandle

__all__ = ["LONGEST_WAIT", "WorkerPoll"]

LONGEST_WAIT = 1e5  # seconds; the system accepts no infinity, and waiting again costs nothing


@final
class WorkerPoll:
    """Waits until a worker has sent something, has room for what it is sent, or has ended.

    The descriptor by which a waiting thread is woken lives as long as this object, which that thread holds:
    so the number of the descriptor is not used for another file meanwhile.

    Raises:
        OSError: this process is out of file descriptors.
    """

    def __init__(self) -> None:
        """Watches no worker yet."""
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
        """Waits from now on, too, for room for what could not be sent."""
        for worker in workers:
            descriptor = worker.channel.socket.fileno()
            if worker.channel.pending != (descriptor in self._sending):
                self._sending ^= {descriptor}
                out = select.POLLOUT if worker.channel.pending else 0
                self._poll.modify(descriptor, select.POLLIN | out)

    def wait(self, seconds: float) -> list[int] | None:
        """Returns the numbers of workers about which there is news; `None` if there is none for so long.

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
        """Lets the thread that waits, or the next one, return at once."""
        with contextlib.suppress(BlockingIOError):
            os.write(self._bell, b"!")

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        """Closes the descriptors; `close` is kept, as `os` may be gone when the interpreter ends."""
        for descriptor in (self._awake, self._bell):
            if descriptor >= 0:
                close(descriptor)
