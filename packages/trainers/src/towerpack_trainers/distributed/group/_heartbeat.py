"""Heartbeats: a thread that finds out which process is lost, whatever the training is doing.

Every process has a connection to the chief over which both sides send heartbeats, with their progress. A
connection that closes, or is silent for too long, means a lost process; the chief tells all others which.
Collectives cannot do that: they fail with errors that name no process, or do not fail at all.
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

from ._connection import Connection

__all__ = ["HeartbeatMonitor", "LostPeer", "Progress"]

_log = logging.getLogger("towerpack_trainers")


@final
@attrs.frozen
class LostPeer:
    """A process that is lost.

    Attributes:
        rank: its rank; None where that is not known.
        reason: how it was lost.
    """

    rank: int | None
    reason: str


@final
class Progress(NamedTuple):
    """How many steps a process has finished, and whether it is in the next one."""

    steps: int
    in_step: bool


@final
class HeartbeatMonitor:
    """Sends heartbeats, and finds out from those of others which process is lost, in a thread.

    Args:
        rank: this process.
        names: the name of each rank in messages.
        connections: by rank: the chief's to all others, the others' to the chief.
        timeout: seconds of silence after which a process is lost.
        on_lost_peer: called in the thread, once, when a process is lost.
        on_heartbeat: called in the thread, about every second.

    Attributes:
        lost_peer: the first process that was lost; None while all live.
        peer_lost: set when `lost_peer` is.
        progress: the latest progress of each rank.
        stop_reasons: for each rank that has announced that it stops, why.
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
        """Notes the progress of this process, for its next heartbeat."""
        self.progress[self._rank] = Progress(steps, in_step)

    def send(self, **message: Any) -> None:
        """Sends all others a message, without waiting for the next heartbeat."""
        self._outbox.append({"from": self._rank, **message})
        with contextlib.suppress(OSError):  # the thread has ended, so no process is left to be told
            self._wake.send(b".")

    def leave(self, failure: str | None = None) -> None:
        """Announces that this process leaves, in good order or because of a failure, and ends the thread."""
        if self._thread.is_alive():
            self._leaving = True
            self.send(**({"left": True} if failure is None else {"failed": failure}))
            self._thread.join(10)
        self._wake.close()

    # ---- the thread

    def _run(self) -> None:
        next_heartbeat = 0.0
        while True:
            if time.monotonic() >= next_heartbeat:
                self._send_all(self._heartbeat())
                self._on_heartbeat()
                next_heartbeat = time.monotonic() + self._interval
            ready = self._selector.select(max(next_heartbeat - time.monotonic(), 0))
            # Messages are read before silence counts: this process itself may have been stopped meanwhile.
            for key, _ in ready:
                if key.data is None:
                    self._woken.recv(1 << 10)
                elif key.data in self._connections:
                    self._last_seen[key.data] = time.monotonic()
                    self._read(key.data)
            self._check_heartbeats()
            while self._outbox:
                self._send_all(self._outbox.pop(0))
            if self._leaving and not self._outbox:
                break
        self._selector.close()
        for connection in self._connections.values():
            connection.close()
        self._woken.close()

    def _heartbeat(self) -> dict[str, Any]:
        known = {**self.progress}
        told = known if self._rank == 0 else {self._rank: known[self._rank]} if self._rank in known else {}
        return {"from": self._rank, "progress": [[rank, *progress] for rank, progress in told.items()]}

    def _read(self, rank: int) -> None:
        try:
            messages = self._connections[rank].receive_pending()
        except (OSError, EOFError) as error:
            self._report_lost(rank, f"its process has ended, or was cut off ({_text(error)})")
            return
        except ValueError as error:
            self._report_lost(rank, f"its heartbeats are damaged: {error}")
            return
        for message in messages:
            self._handle(rank, message)

    def _handle(self, rank: int, message: dict[str, Any]) -> None:
        sender = message.get("from", rank)
        for who, steps, in_step in message.get("progress", ()):
            if who != self._rank:
                self.progress[who] = Progress(steps, in_step)
        if "stops" in message:
            self.stop_reasons[sender] = message["stops"]
        if "lost" in message:
            self._report_lost(message["lost"], message["why"], sender=rank)
        if "failed" in message:
            self._report_lost(sender, f"it failed: {message['failed']}", sender=rank)
        if "stops" in message and self._rank == 0:
            self._outbox.append(message)
        if "left" in message:
            self._drop(rank)

    def _check_heartbeats(self) -> None:
        now = time.monotonic()
        for rank in list(self._connections):
            if now - self._last_seen[rank] > self._timeout:
                self._report_lost(
                    rank, f"it sent no heartbeat for {self._timeout:g} s: it hangs, or the network does"
                )

    def _report_lost(self, rank: int, reason: str, sender: int | None = None) -> None:
        """Reports a lost process. Only the first one counts: losses after it are its consequences."""
        if self.lost_peer is None:
            self.lost_peer = LostPeer(rank, reason)
            if self._rank == 0:
                self._send_all({"from": 0, "lost": rank, "why": reason})
            self.peer_lost.set()
            self._on_lost_peer()
        if sender is None:
            self._drop(rank)

    def _send_all(self, message: dict[str, Any]) -> None:
        for rank, connection in list(self._connections.items()):
            if message["from"] == rank:
                continue
            try:
                connection.send(message, self._interval)
            except TimeoutError:
                pass  # a process that does not read will be silent, too
            except OSError as error:
                # Its last messages may still be unread, and say more than this error.
                _log.debug("%s cannot be told %s: %s", self._names[rank], message, error)

    def _drop(self, rank: int) -> None:
        connection = self._connections.pop(rank, None)
        if connection is not None:
            self._selector.unregister(connection)
            connection.close()


def _text(error: BaseException) -> str:
    return str(error) or type(error).__name__
