"""Threads in the place of worker processes: the same loop, the same crew, and nothing is copied."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from ...batch._buffer_pool import BufferPool
from ..transport._channel import PeerGoneError
from ._worker_info import WorkerInfo

_SAMPLE = 16


class Handed:
    """Datapoints that change hands within the process.

    Attributes:
        size: about how many bytes they have.
    """

    def __init__(self, datapoints: list[Any] | None) -> None:
        """Takes a look at a few of them."""
        self._datapoints = datapoints
        sample = (datapoints or [])[:: max(len(datapoints or []) // _SAMPLE, 1)]
        self.size = sum(map(_bytes, sample)) * len(datapoints or []) // max(len(sample), 1)

    def open(self, read_only: bool = False) -> list[Any]:
        """The datapoints, once. They are not lent: whoever made them may write to them still."""
        datapoints, self._datapoints = self._datapoints or [], None
        return datapoints


class _NoSlots(BufferPool):
    """Batches of a thread are in the consumer's memory anyway: some that was used for earlier ones."""

    newest = lent = 0
    trusts_caches = False

    def settle(self, sent: set[int]) -> None:
        """There are no slots."""


class ThreadEnd:
    """What `Channel` is between processes: one end of a connection, which wakes up who waits at the other."""

    owed = 0

    def __init__(self, end: socket.socket) -> None:
        """Takes one of a pair of connected sockets, for the waking; see `connect`."""
        self.socket = end
        self.pool = _NoSlots()
        self.inbox: deque[tuple[Any, Handed]] = deque()
        self.outbox: deque[tuple[Any, Handed]] = deque()

    def send(self, head: Any, datapoints: list[Any] | None = None) -> None:
        """Hands over `head` and some datapoints.

        Raises:
            PeerGoneError: if the other end is closed.
        """
        self.outbox.append((head, Handed(datapoints)))
        try:
            self.socket.send(b"!")
        except OSError as error:
            raise PeerGoneError from error

    def receive(self, wait: bool = True) -> tuple[Any, Handed] | None:
        """The next message; `None` if there is none yet and `wait` is false.

        Raises:
            PeerGoneError: if there will be none.
        """
        try:
            woken = self.socket.recv(1, 0 if wait else socket.MSG_DONTWAIT)
        except BlockingIOError:
            return None
        except OSError as error:
            raise PeerGoneError from error
        if not woken:
            raise PeerGoneError
        return self.inbox.popleft()

    def give_back(self) -> None:
        """There is nothing to give back."""

    def wait(self, seconds: float) -> bool:
        """There is nothing to wait for."""
        return False

    def close(self) -> None:
        """Hangs up; a thread that waits at the other end goes on, and finds that out."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


class Thread:
    """A worker thread, with the methods of `Process`.

    Args:
        info: which worker it is.
        end: its end of the connection.
        live: what it does.
    """

    sentinel = -1
    pid = 0

    def __init__(self, info: WorkerInfo, end: ThreadEnd, live: Callable[[ThreadEnd], None]) -> None:
        """Starts it."""
        self._live = live
        self._thread = threading.Thread(
            target=self._run, args=(end,), daemon=True, name=f"towerpack worker {info.number}"
        )
        self._thread.start()

    def _run(self, end: ThreadEnd) -> None:
        try:
            with contextlib.suppress(PeerGoneError):
                self._live(end)
        finally:
            end.close()

    def ended(self, wait: float = 0.0) -> bool:
        """Whether it has ended, or does so within `wait` seconds."""
        self._thread.join(wait)
        return not self._thread.is_alive()

    def kill(self) -> None:
        """Nobody can; it ends after the datapoint that it is at."""

    def close(self) -> None:
        """Nothing is open."""

    def how_it_ended(self) -> str:
        """In words."""
        return "ended by itself"

    def __str__(self) -> str:
        """For messages."""
        return f"thread {self._thread.name!r}"


def connect() -> tuple[ThreadEnd, ThreadEnd]:
    """Two ends of a connection within this process."""
    one, other = map(ThreadEnd, socket.socketpair())
    one.outbox, other.outbox = other.inbox, one.inbox
    return one, other


def _bytes(value: Any) -> int:
    if isinstance(value, (np.ndarray, np.generic)):
        return int(value.nbytes)
    if isinstance(value, (str, bytes)):
        return len(value)
    if isinstance(value, (list, tuple)):
        return sum(map(_bytes, value))
    return sum(map(_bytes, value.values())) if isinstance(value, dict) else 8
