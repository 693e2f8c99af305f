"""Heartbeats: a thread that detects lost processes, independently of the training's own threads.

Every process has a connection to the chief, over which both sides send heartbeats with their progress. A
connection that closes, or that is silent for too long, means a lost process; the chief reports it to all
others. Collectives cannot do that: their errors name no process, or they do not fail at all.
"""

from __future__ import annotations

import contextlib
import logging
import selectors
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, final

import attrs

from ..._errors import describe_error
from ._connection import Connection, encode

__all__ = ["HeartbeatMonitor", "LostPeer", "Progress"]

_log = logging.getLogger("towerpack_trainers")

# The maximum time, in seconds, that a leaving process waits for others to read its last message.
_FAREWELL_SECONDS = 3.0


@final
@attrs.frozen
class LostPeer:
    """A lost process.

    Attributes:
        rank: its rank; None if it is not known.
        reason: the reason of the loss.
    """

    rank: int | None
    reason: str


@final
class Progress(NamedTuple):
    """The number of finished steps of a process, and whether it is in the next one."""

    steps: int
    in_step: bool


@final
class HeartbeatMonitor:
    """Sends heartbeats, and detects lost processes from those of others, in a thread.

    Args:
        rank: the rank of this process.
        names: the name of each rank in messages.
        connections: by rank: those of the chief to all others, or that of another process to the chief.
        timeout: the time without a heartbeat, in seconds, after which a process counts as lost.
        on_lost_peer: called in the thread, once, when a process is lost.
        on_heartbeat: called in the thread, about every second.

    Attributes:
        lost_peer: the first lost process; None while all are alive.
        peer_lost: set when `lost_peer` is.
        progress: the latest progress of each rank.
        stop_reasons: the reason of each rank that has announced its stop.
    """

    def __init__(
        self,
        rank: int,
        names: Sequence[str],
        connections: dict[int, Connection],
        timeout: float,
        on_lost_peer: Callable[[], None],
        on_heartbeat: Callable[[], None],
    ) -> None:
        self.lost_peer: LostPeer | None = None
        self.peer_lost = threading.Event()
        self.progress: dict[int, Progress] = {}
        self.stop_reasons: dict[int, str] = {}
        self._rank, self._names = rank, names
        self._connections = dict(connections)
        self._timeout = timeout
        self._on_lost_peer, self._on_heartbeat = on_lost_peer, on_heartbeat
        self._interval = min(1.0, timeout / 5)
        self._outbox: list[dict[str, Any]] = []
        self._leaving = False
        self._wake, self._woken = socket.socketpair()
        self._last_seen = {rank: time.monotonic() for rank in connections}
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._woken, selectors.EVENT_READ)
        for rank, connection in connections.items():
            self._selector.register(connection, selectors.EVENT_READ, rank)
        self._thread = threading.Thread(target=self._run, name="towerpack-heartbeat", daemon=True)
        self._thread.start()

    # ---- called by the training

    def note_progress(self, steps: int, in_step: bool) -> None:
        """Records the progress of this process, for its next heartbeat."""
        self.progress[self._rank] = Progress(steps, in_step)

    def send(self, **message: Any) -> None:
        """Sends a message to all others, without waiting for the next heartbeat."""
        self._outbox.append({"from": self._rank, **message})
        self._wake_up()

    def leave(self, failure: str | None = None) -> None:
        """Announces that this process leaves, normally or because of a failure, and ends the thread."""
        if self._thread.is_alive():
            message = {"left": True} if failure is None else {"failed": failure}
            self._outbox.append({"from": self._rank, **message})
            self._leaving = True  # after the message: the thread ends when nothing is left to send
            self._wake_up()
            self._thread.join(10)
        self._wake.close()

    def _wake_up(self) -> None:
        with contextlib.suppress(OSError):  # the thread has ended, so there is no process left to notify
            self._wake.send(b".")

    # ---- the thread

    def _run(self) -> None:
        try:
            self._watch()
            self._flush(time.monotonic() + _FAREWELL_SECONDS)
        except BaseException as error:  # the training must not wait for a dead thread
            _log.exception("The heartbeat thread failed")
            reason = f"the heartbeat thread of this process failed ({describe_error(error)})"
            self.lost_peer = self.lost_peer or LostPeer(None, reason)
            self.peer_lost.set()
            self._call_back(self._on_lost_peer)
        finally:
            self._selector.close()
            for connection in self._connections.values():
                connection.close()
            self._woken.close()

    def _watch(self) -> None:
        next_heartbeat = 0.0
        while not self._leaving or self._outbox:
            is_due = time.monotonic() >= next_heartbeat
            if is_due:
                self._post_all(self._heartbeat())
                self._call_back(self._on_heartbeat)
                next_heartbeat = time.monotonic() + self._interval
            wait = 0 if is_due else max(next_heartbeat - time.monotonic(), 0)
            for key, events in self._selector.select(wait):
                self._attend(key.data, events)
            # Messages are read before silence counts: this process itself may have been suspended.
            if is_due:
                self._check_heartbeats()
            while self._outbox:
                self._post_all(self._outbox.pop(0))

    def _attend(self, rank: int | None, events: int) -> None:
        if rank is None:
            self._woken.recv(1 << 10)
            return
        if rank in self._connections and events & selectors.EVENT_READ:
            self._read(rank)
        if rank in self._connections and events & selectors.EVENT_WRITE:
            self._post(rank, b"")

    def _heartbeat(self) -> dict[str, Any]:
        known = {**self.progress}
        told = known if self._rank == 0 else {self._rank: known[self._rank]} if self._rank in known else {}
        return {"from": self._rank, "progress": [[rank, *progress] for rank, progress in told.items()]}

    def _read(self, rank: int) -> None:
        self._last_seen[rank] = time.monotonic()
        try:
            for message in self._connections[rank].receive_pending():
                self._handle(rank, message)
        except (OSError, EOFError) as error:
            self._report_lost(rank, f"its process ended, or was disconnected ({_text(error)})")
        except Exception as error:  # this thread must continue for the others after any message
            self._report_lost(rank, f"it sent an invalid heartbeat: {describe_error(error)}")

    def _handle(self, rank: int, message: Any) -> None:
        if not isinstance(message, dict):
            raise ValueError(f"received {repr(message)[:60]} instead of an object")
        # Only the chief forwards messages of others.
        sender = rank if self._rank == 0 else self._known(message.get("from", rank))
        for who, steps, in_step in message.get("progress", ()):
            if self._known(who) != self._rank:
                self.progress[who] = Progress(int(steps), bool(in_step))
        if "stops" in message:
            self.stop_reasons[sender] = str(message["stops"])
        if "lost" in message and self._rank != 0:
            lost = message["lost"]
            self._report_lost(None if lost is None else self._known(lost), str(message["why"]), sender=rank)
        if "failed" in message:
            self._report_lost(sender, f"it failed: {message['failed']}", sender=rank)
        if "stops" in message and self._rank == 0:
            self._outbox.append({"from": sender, "stops": self.stop_reasons[sender]})
        if "left" in message:
            self._drop(rank)

    def _known(self, rank: Any) -> int:
        if type(rank) is not int or not 0 <= rank < len(self._names):
            raise ValueError(f"received {repr(rank)[:60]} instead of a rank below {len(self._names)}")
        return rank

    def _check_heartbeats(self) -> None:
        latest = time.monotonic() - self._timeout
        for rank in [rank for rank in self._connections if self._last_seen[rank] < latest]:
            self._report_lost(
                rank, f"it sent no heartbeat for {self._timeout:g} s: the process or the network hangs"
            )

    def _report_lost(self, rank: int | None, reason: str, sender: int | None = None) -> None:
        """Reports a lost process. Only the first one counts: later losses are its consequences."""
        if self.lost_peer is None:
            self.lost_peer = LostPeer(rank, reason)
            if self._rank == 0:
                self._post_all({"from": 0, "lost": rank, "why": reason})
            self.peer_lost.set()
            self._call_back(self._on_lost_peer)
        if sender is None and rank is not None:
            self._drop(rank)

    def _call_back(self, function: Callable[[], None]) -> None:
        try:
            function()
        except Exception:
            _log.exception("The callback for a lost peer failed")

    def _post_all(self, message: dict[str, Any]) -> None:
        frame, may_wait = encode(message), "progress" not in message
        for rank, connection in list(self._connections.items()):
            # A process that does not read receives one heartbeat later, not all that it missed.
            if message["from"] != rank and (may_wait or not connection.unsent):
                self._post(rank, frame)

    def _post(self, rank: int, frame: bytes) -> None:
        connection = self._connections[rank]
        waited = bool(connection.unsent)
        try:
            connection.post(frame)
        except OSError as error:
            # Its last messages may still be unread, and contain more details than this error.
            _log.debug("%s cannot receive %s: %s", self._names[rank], frame, error)
            connection.unsent.clear()
        waits = bool(connection.unsent)
        if waits != waited:
            write = selectors.EVENT_WRITE if waits else 0
            self._selector.modify(connection, selectors.EVENT_READ | write, rank)

    def _flush(self, deadline: float) -> None:
        """Waits until the last messages are sent, such as the reason of leaving; reads no others."""
        self._selector.unregister(self._woken)
        for rank, connection in list(self._connections.items()):
            if connection.unsent:
                self._selector.modify(connection, selectors.EVENT_WRITE, rank)
            else:
                self._drop(rank)
        while self._connections and (left := deadline - time.monotonic()) > 0:
            for key, _ in self._selector.select(left):
                self._post(key.data, b"")
                if not self._connections[key.data].unsent:
                    self._drop(key.data)

    def _drop(self, rank: int) -> None:
        connection = self._connections.pop(rank, None)
        if connection is not None:
            self._selector.unregister(connection)
            connection.close()


def _text(error: BaseException) -> str:
    return str(error) or type(error).__name__
