"""The rendezvous: all processes connect to the chief, which answers when all have joined.

The chief listens on its own address in the cluster, before TensorFlow's server does, so no other port is
needed. Each process keeps two connections to it: one for control messages, one for heartbeats.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import closing

from .._distributed_errors import RendezvousError, enumerate_names
from ._connection import LARGEST, Connection, connect, encode, listen
from ._handshake import LARGEST_HELLO, PURPOSES, Handshake
from ._rendezvous_server import Connections, RendezvousServer, check_open_files

__all__ = ["call_chief", "receive_calls"]

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
