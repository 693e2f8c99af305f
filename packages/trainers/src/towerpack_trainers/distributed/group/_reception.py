"""The chief's side of the rendezvous: one thread answers all callers at once, strangers among them."""

from __future__ import annotations

import errno
import logging
import os
import resource
import selectors
import socket
import time
from typing import Any, final

import attrs

from .._distributed_errors import RendezvousError, describe_error
from ._connection import Connection, encode
from ._handshake import LARGEST_HELLO, Handshake

__all__ = ["Connections", "Reception", "check_open_files"]

_log = logging.getLogger("towerpack_trainers")

# Seconds that a caller gets to say who it is; a process of the cluster does so at once.
_HELLO_SECONDS = 10.0
# Callers beside those that are expected. A health check or a scanner leaves no more than a few.
_MOST_STRANGERS = 1024
_MOST_AT_ONCE = 256  # so that a flood of them leaves time for those that have been accepted
_SPARE_FILES = 64
_NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


@final
@attrs.frozen
class Connections:
    """The connections of one process by the other side's rank: a chief has all, the others have 0.

    Attributes:
        control: for messages in turn.
        heartbeat: for heartbeats.
    """

    control: dict[int, Connection]
    heartbeat: dict[int, Connection]

    def close(self) -> None:
        """Closes all of them."""
        for connection in (*self.control.values(), *self.heartbeat.values()):
            connection.close()


@final
@attrs.frozen(eq=False)
class _Caller:
    """A connection whose other side has not joined yet.

    Attributes:
        challenge: what the chief has sent it.
        deadline: when it is given up.
    """

    challenge: dict[str, Any]
    deadline: float


@final
class Reception:
    """Waits until all other processes have called, and never for one caller alone.

    Whatever a caller does (silence, a byte now and then, damaged messages, a reset) ends that caller. One
    that has joined and is gone again before all have come makes room for its next try.

    Args:
        listener: where they call.
        handshake: what a caller must know.
    """

    def __init__(self, listener: socket.socket, handshake: Handshake) -> None:
        listener.setblocking(False)
        self.connections = Connections({}, {})
        self._listener, self._handshake = listener, handshake
        self._others = len(handshake.names) - 1
        self._callers: dict[Connection, _Caller] = {}  # in the order in which they came
        # Of those that are welcome, joined or still callers: where its connection is, besides here.
        self._places: dict[Connection, tuple[dict[int, Connection], int]] = {}
        self._joined: set[Connection] = set()
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ)

    def wait_for_all(self, deadline: float) -> list[int]:
        """Answers callers until all have come, or the time is over.

        Returns:
            The ranks that did not come. `connections` has those that did.
        """
        try:
            while len(self._joined) < 2 * self._others and (left := deadline - time.monotonic()) > 0:
                for key, _ in self._selector.select(min(left, self._until_next_expiry())):
                    if isinstance(key.fileobj, Connection):
                        self._attend(key.fileobj)
                    else:
                        self._accept_some()
                self._expire()
        finally:
            for connection in list(self._callers):
                self._drop(connection)
            self._selector.close()
        complete = self.connections.control.keys() & self.connections.heartbeat.keys()
        return [rank for rank in range(1, self._others + 1) if rank not in complete]

    def _accept_some(self) -> None:
        for _ in range(_MOST_AT_ONCE):
            try:
                sock, _ = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _NO_DESCRIPTOR and not self._make_room():
                    raise RendezvousError(
                        f"{self._handshake.names[0]} can accept no more processes: {error}. Raise the number "
                        "of files that it may open (`ulimit -n`)."
                    ) from error
                continue  # a caller that has gone before it was accepted
            if len(self._callers) >= 2 * self._others + _MOST_STRANGERS:
                self._make_room()
            self._greet(Connection(sock, LARGEST_HELLO))

    def _greet(self, connection: Connection) -> None:
        caller = _Caller(self._handshake.challenge(), time.monotonic() + _HELLO_SECONDS)
        self._callers[connection] = caller
        self._selector.register(connection, selectors.EVENT_READ)
        try:
            connection.post(encode(caller.challenge))
        except OSError:
            self._drop(connection)

    def _make_room(self) -> bool:
        """Drops the caller that has been silent for longest; returns whether there was one."""
        for connection in self._callers:
            self._drop(connection)
            return True
        return False

    def _attend(self, connection: Connection) -> None:
        if connection.fileno() < 0:  # dropped, since this round of events began
            return
        try:
            messages = connection.receive_pending()
            if messages:
                [message] = messages
                self._answer(connection, self._callers[connection], message)
        except Exception as error:  # a stranger may do anything, and must not end more than its own call
            _log.debug("A caller at the rendezvous is dropped: %s", describe_error(error))
            self._drop(connection)

    def _answer(self, connection: Connection, caller: _Caller, hello: Any) -> None:
        if connection in self._places and hello == self._handshake.JOINED:
            del self._callers[connection]
            self._joined.add(connection)
            return
        refusal = self._handshake.refusal(caller.challenge, hello)
        if refusal is None:
            place, rank = getattr(self.connections, hello["purpose"]), hello["rank"]
            if rank in place:
                refusal = f"another process has joined as rank {rank} already."
        if refusal is not None:
            connection.post(encode({"refused": refusal}))
            self._drop(connection)
            return
        connection.post(encode(self._handshake.welcome(caller.challenge, hello)))
        place[rank] = connection
        self._places[connection] = (place, rank)

    def _drop(self, connection: Connection) -> None:
        self._callers.pop(connection, None)
        self._joined.discard(connection)
        if connection in self._places:
            place, rank = self._places.pop(connection)
            del place[rank]
        self._selector.unregister(connection)
        connection.close()

    def _until_next_expiry(self) -> float:
        first = next(iter(self._callers.values()), None)
        return _HELLO_SECONDS if first is None else max(first.deadline - time.monotonic(), 0)

    def _expire(self) -> None:
        now = time.monotonic()
        while self._callers and next(iter(self._callers.values())).deadline <= now:
            self._make_room()


def check_open_files(processes: int) -> None:
    """Checks that this process may open as many files as the chief needs connections.

    Raises:
        RendezvousError: it may not.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = 2 * (processes - 1) + len(os.listdir("/proc/self/fd")) + _SPARE_FILES
    if limit != resource.RLIM_INFINITY and needed > limit:
        raise RendezvousError(
            f"The chief of {processes} processes has two connections to each of the others, so it needs "
            f"{needed} open files, and may open {limit}. Raise the limit where it is started: "
            f"`ulimit -n {1 << needed.bit_length()}`."
        )
