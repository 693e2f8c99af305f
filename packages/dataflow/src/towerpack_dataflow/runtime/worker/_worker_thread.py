"""Threads in place of worker processes: the same loop in the same pool, without copies."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, final

from ...batch._buffer_pool import BufferPool
from ...flow._columns import datapoint_size
from ..transport._channel import PeerGoneError
from ..transport._collected_datapoints import ColumnTable, from_table
from ._task_handler import WorkerInfo

__all__ = ["InProcessMessage", "ThreadChannel", "WorkerThread", "connected_channels"]

_SAMPLE = 16
_NOT_WAITING = getattr(socket, "MSG_DONTWAIT", 0)  # 0: Windows, where a call of `select` comes first


@final
class InProcessMessage:
    """Datapoints passed on within the process.

    Attributes:
        size: approximate size in bytes; 0 without datapoints.
    """

    def __init__(self, datapoints: list[Any] | ColumnTable | None) -> None:
        """Estimates the size from a few datapoints."""
        self._datapoints: list[Any] | None = from_table(datapoints) or []
        sample = self._datapoints[:: max(len(self._datapoints) // _SAMPLE, 1)]
        about = sum(map(datapoint_size, sample)) * len(self._datapoints) // max(len(sample), 1)
        self.size = max(about, len(self._datapoints))  # 0 means no datapoints

    def open(self, read_only: bool = False) -> list[Any]:
        """Returns the datapoints, once. They are not lent: their flow may write to them."""
        datapoints, self._datapoints = self._datapoints or [], None
        return datapoints


@final
class _ThreadBuffers(BufferPool):
    """Memory for the batches of a thread, which the consumer can access without slots."""

    newest = lent = 0
    trusts_caches = bypasses_caches = False

    def settle(self, sent: set[int]) -> None:
        """Does nothing: there are no slots."""


@final
class ThreadChannel:
    """One end of a connection within the process, like `Channel` between processes.

    A pair of sockets wakes the thread that waits at the other end; see `connected_channels`.
    """

    owed = in_use = 0
    pending = False

    def __init__(self, end: socket.socket) -> None:
        """Takes one of a pair of connected sockets."""
        self.socket = end
        self.slots = _ThreadBuffers()
        self.inbox: deque[tuple[Any, InProcessMessage]] = deque()
        self.outbox: deque[tuple[Any, InProcessMessage]] = deque()

    def send(self, head: Any, datapoints: list[Any] | ColumnTable | None = None) -> None:
        """Sends `head` and some datapoints.

        Raises:
            PeerGoneError: the other end is closed.
        """
        self.outbox.append((head, InProcessMessage(datapoints)))
        try:
            self.socket.send(b"!")
        except OSError as error:
            raise PeerGoneError from error

    def receive(self, wait: bool = True) -> tuple[Any, InProcessMessage] | None:
        """Returns head and contents of the next message; `None` if none has arrived and `wait` is false.

        Raises:
            PeerGoneError: the other end is closed.
        """
        try:
            if not wait and not _NOT_WAITING and not select.select([self.socket], [], [], 0)[0]:
                return None
            woken = self.socket.recv(1, 0 if wait else _NOT_WAITING)
        except BlockingIOError:
            return None
        except OSError as error:
            raise PeerGoneError from error
        if not woken:
            raise PeerGoneError
        return self.inbox.popleft()

    def flush(self) -> None:
        """Does nothing: nothing is ever pending."""

    def give_back(self) -> None:
        """Does nothing: there is nothing to give back."""

    def wait(self, seconds: float) -> bool:
        """Returns at once: there is nothing to wait for."""
        return False

    def hang_up(self) -> None:
        """Ends the connection, which wakes a thread waiting at the other end."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Closes the descriptor."""
        self.socket.close()


@final
class WorkerThread:
    """A worker thread, with the methods of `WorkerProcess`.

    Args:
        info: number of the worker.
        end: its end of the connection.
        live: runs in the thread.
    """

    sentinel = -1
    pid = 0

    def __init__(self, info: WorkerInfo, end: ThreadChannel, live: Callable[[ThreadChannel], None]) -> None:
        """Starts the thread."""
        self._live = live
        self._thread = threading.Thread(
            target=self._run, args=(end,), daemon=True, name=f"towerpack worker {info.number}"
        )
        self._thread.start()

    def _run(self, end: ThreadChannel) -> None:
        try:
            with contextlib.suppress(PeerGoneError):
                self._live(end)
        finally:
            end.hang_up()
            end.close()

    def ended(self, wait: float = 0.0) -> bool:
        """Tells whether it has ended, or ends within `wait` seconds."""
        if self._thread is threading.current_thread():
            return False  # the garbage collector, which ends unreferenced runners, may run in any thread
        self._thread.join(wait)
        return not self._thread.is_alive()

    def kill(self) -> None:
        """Does nothing: threads cannot be killed, and this one ends after its current datapoint."""

    def close(self) -> None:
        """Does nothing: nothing is open."""

    def how_it_ended(self) -> str:
        """Describes the end of the thread, for messages."""
        return "ended by itself"

    def __str__(self) -> str:
        """Names the thread, for messages."""
        return f"thread {self._thread.name!r}"


def connected_channels() -> tuple[ThreadChannel, ThreadChannel]:
    """Makes the two ends of a connection within this process."""
    one, other = map(ThreadChannel, socket.socketpair())
    one.outbox, other.outbox = other.inbox, one.inbox
    return one, other
