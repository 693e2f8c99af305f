"""The rendezvous: all processes connect to the chief, which answers when all have joined.

The chief listens on its own address in the cluster, before TensorFlow's server does, so no other port is
needed. Each process keeps two connections to it: one for control messages, one for heartbeats.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import resource
import selectors
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any, final

import attrs

from ..._errors import RendezvousError, describe_error, enumerate_names
from ._connection import LARGEST, LARGEST_HELLO, PURPOSES, Connection, Handshake, connect, encode, listen

__all__ = ["Connections", "RendezvousServer", "call_chief", "check_open_files", "receive_calls"]

_log = logging.getLogger("towerpack_trainers")


_RETRY = 0.2
# The errors of a call to another listener, such as the ending server of an earlier attempt.
_NOT_THE_CHIEF = (OSError, EOFError, ValueError)
# A heartbeat contains the progress of every process.
_LARGEST_HEARTBEAT, _LARGEST_PROGRESS = 1 << 16, 64


def receive_calls(
    port: int,
    handshake: Handshake,
    timeout: float,
    ready: Callable[[int], None] | None = None,
    host: str = "",
) -> Connections:
    """Waits, as the chief, until all other processes have connected.

    Args:
        port: the port to listen on; 0 selects a free one.
        handshake: the shared facts of this cluster.
        timeout: the time until all must have joined, in seconds.
        ready: called with the port once the socket listens.
        host: the address to listen on; all of this host's by default.

    Raises:
        RendezvousError: the port is in use, or a process did not connect in time.
    """
    deadline, names = time.monotonic() + timeout, handshake.names
    check_open_files(len(names))
    with closing(_listen(port, host, deadline, names[0])) as listener:
        if ready is not None:
            ready(listener.getsockname()[1])
        server = RendezvousServer(listener, handshake)
        connections = server.connections
        try:
            missing = [names[rank] for rank in server.wait_for_all(deadline)]
            if missing:
                raise RendezvousError(
                    f"{enumerate_names(missing)} did not join within {timeout:g} s. Was every process "
                    f"started, with the same cluster, and can it reach {names[0]}?"
                )
        except BaseException:
            connections.close()
            raise
    for connection in connections.control.values():
        with contextlib.suppress(OSError):  # already gone, which the heartbeats will report
            connection.post(encode("all are here"))
    return _for_training(connections, len(names))


def call_chief(
    hosts: Sequence[str], port: int, rank: int, handshake: Handshake, timeout: float
) -> Connections:
    """Connects to the chief, and waits until all others have connected.

    Args:
        hosts: names of the chief's host to try, in order.
        port, handshake, timeout: as for `receive_calls`.
        rank: the rank of this process.

    Raises:
        RendezvousError: the chief does not answer, or refuses this process.
    """
    deadline, chief = time.monotonic() + timeout, handshake.names[0]
    opened: dict[str, Connection] = {}
    try:
        for purpose in PURPOSES:
            opened[purpose] = _call(hosts, port, rank, purpose, handshake, deadline, timeout)
        _wait_for_all(opened["control"], deadline, chief)
    except BaseException:
        for connection in opened.values():
            connection.close()
        raise
    return _for_training(Connections({0: opened["control"]}, {0: opened["heartbeat"]}), len(handshake.names))


def _for_training(connections: Connections, size: int) -> Connections:
    for connection in connections.control.values():
        connection.largest = LARGEST
    for connection in connections.heartbeat.values():
        connection.largest = _LARGEST_HEARTBEAT + _LARGEST_PROGRESS * size
    return connections


def _listen(port: int, host: str, deadline: float, name: str) -> socket.socket:
    while True:
        try:
            return listen(port, host)
        except OSError as error:
            # The process of an earlier attempt may still be ending.
            if error.errno != errno.EADDRINUSE or time.monotonic() > deadline:
                raise RendezvousError(
                    f"{name} cannot listen on port {port}: {error}. Does another process use it, such as an "
                    "earlier start of this training?"
                ) from error
        time.sleep(_RETRY)


def _call(
    hosts: Sequence[str],
    port: int,
    rank: int,
    purpose: str,
    handshake: Handshake,
    deadline: float,
    timeout: float,
) -> Connection:
    reason: Exception = TimeoutError("no time was left")
    while (left := deadline - time.monotonic()) > 0:
        for host in hosts:
            try:
                connection = connect(host, port, min(5.0, left))
            except OSError as error:
                reason = error
                continue
            try:
                _introduce(connection, rank, purpose, handshake, min(10.0, left))
                return connection
            except BaseException as error:
                connection.close()
                if isinstance(error, RendezvousError) or not isinstance(error, _NOT_THE_CHIEF):
                    raise
                reason = error
        time.sleep(_RETRY)
    raise RendezvousError(
        f"{handshake.names[0]} could not be reached within {timeout:g} s; the last attempt ended with "
        f"{type(reason).__name__}: {reason}. Was it started, and is its address correct?"
    ) from reason


def _introduce(connection: Connection, rank: int, purpose: str, handshake: Handshake, timeout: float) -> None:
    connection.largest = LARGEST_HELLO
    challenge = connection.receive(timeout)
    hello = handshake.hello(challenge, rank, purpose)
    connection.send(hello, timeout)
    handshake.check_answer(challenge, hello, connection.receive(timeout))
    connection.send(handshake.JOINED, timeout)


def _wait_for_all(control: Connection, deadline: float, name: str) -> None:
    try:
        # The chief times out at its own deadline, which may be a little later, and closes the connection.
        control.receive(max(deadline - time.monotonic(), 0) + 10)
    except (OSError, EOFError, ValueError) as error:
        raise RendezvousError(
            f"{name} gave up before all processes had joined. Its own error names the missing ones."
        ) from error


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
