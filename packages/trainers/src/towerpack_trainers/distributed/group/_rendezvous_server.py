"""The chief's side of the rendezvous: one thread answers all callers concurrently, strangers included."""

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

__all__ = ["Connections", "RendezvousServer", "check_open_files"]

_log = logging.getLogger("towerpack_trainers")

# The time, in seconds, for a caller to identify itself; a process of the cluster does so at once.
_HELLO_SECONDS = 10.0
# The number of callers besides the expected ones. Health checks and scanners rarely exceed it.
_MOST_STRANGERS = 1024
_MOST_AT_ONCE = 256  # so that a flood of callers leaves time for the accepted ones
_SPARE_FILES = 64
_NO_DESCRIPTOR = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


@final
@attrs.frozen
class Connections:
    """The connections of one process by rank: a chief has one to each process, the others one to rank 0.

    Attributes:
        control: for synchronous messages.
        heartbeat: for heartbeats.
    """

    control: dict[int, Connection]
    heartbeat: dict[int, Connection]

    def close(self) -> None:
        """Closes all connections."""
        for connection in (*self.control.values(), *self.heartbeat.values()):
            connection.close()


@final
@attrs.frozen(eq=False)
class _Caller:
    """A connection to a process that has not joined yet.

    Attributes:
        challenge: the chief's message to it.
        deadline: the time at which it is dropped.
    """

    challenge: dict[str, Any]
    deadline: float


@final
class RendezvousServer:
    """Waits until all other processes have connected; no single caller can block it.

    An error of one caller (silence, slow sending, damaged messages, a reset) ends only its own connection. A
    process that has joined and disconnects before all have joined may try again.

    Args:
        listener: the listening socket.
        handshake: the cluster's secret and identity.
    """

    def __init__(self, listener: socket.socket, handshake: Handshake) -> None:
        listener.setblocking(False)
        self.connections = Connections({}, {})
        self._listener, self._handshake = listener, handshake
        self._others = len(handshake.names) - 1
        self._callers: dict[Connection, _Caller] = {}  # in the order of arrival
        # The place of each accepted connection, joined or still among the callers.
        self._places: dict[Connection, tuple[dict[int, Connection], int]] = {}
        self._joined: set[Connection] = set()
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ)

    def wait_for_all(self, deadline: float) -> list[int]:
        """Answers callers until all processes have joined, or the time is over.

        Returns:
            The missing ranks. `connections` has the others.
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
                        f"{self._handshake.names[0]} cannot accept more processes: {error}. Raise its limit "
                        "of open files (`ulimit -n`)."
                    ) from error
                continue  # a caller that disconnected before it was accepted
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
        """Drops the caller with the longest silence; returns whether there was one."""
        for connection in self._callers:
            self._drop(connection)
            return True
        return False

    def _attend(self, connection: Connection) -> None:
        if connection.fileno() < 0:  # dropped since this round of events began
            return
        try:
            messages = connection.receive_pending()
            if messages:
                [message] = messages
                self._answer(connection, self._callers[connection], message)
        except Exception as error:  # an error caused by a stranger must end only its own connection
            _log.debug("Dropped a caller at the rendezvous: %s", describe_error(error))
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
                refusal = f"another process has already joined as rank {rank}."
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
    """Checks that this process may open enough files for the connections of a chief.

    Raises:
        RendezvousError: the limit is too low.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = 2 * (processes - 1) + len(os.listdir("/proc/self/fd")) + _SPARE_FILES
    if limit != resource.RLIM_INFINITY and needed > limit:
        raise RendezvousError(
            f"The chief of {processes} processes has two connections to each of the others and needs "
            f"{needed} open files; the limit is {limit}. Raise it before the start: "
            f"`ulimit -n {1 << needed.bit_length()}`."
        )
