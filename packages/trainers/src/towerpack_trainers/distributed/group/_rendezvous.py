"""How processes find one another: all call the chief, which answers when all are there.

The chief listens on its own address of the cluster, before TensorFlow's server does, so no other port is
needed. Each process keeps two connections to it: one for control messages in turn, one for heartbeats.
"""

from __future__ import annotations

import errno
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any, final

import attrs

from .._distributed_errors import RendezvousError
from ._connection import Connection, connect, listen

__all__ = ["Connections", "call_chief", "receive_calls"]

_PURPOSES = ("control", "heartbeat")
_RETRY = 0.2


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


def receive_calls(
    port: int,
    names: Sequence[str],
    fingerprint: str,
    timeout: float,
    ready: Callable[[int], None] | None = None,
) -> Connections:
    """Waits, as the chief, until all others have called.

    Args:
        port: where to listen; 0 takes a free one.
        names: the name of each rank in errors.
        fingerprint: a string that all processes of this cluster have in common.
        timeout: seconds until all must be there.
        ready: called with the port once it can be called.

    Raises:
        RendezvousError: the port is taken, or a process did not call in time.
    """
    deadline = time.monotonic() + timeout
    connections = Connections({}, {})
    with closing(_listen(port, deadline, names[0])) as listener:
        if ready is not None:
            ready(listener.getsockname()[1])
        try:
            for connection, call in _calls(listener, deadline):
                _admit(connections, connection, call, names, fingerprint)
                if len(connections.control) == len(connections.heartbeat) == len(names) - 1:
                    break
        except BaseException:
            connections.close()
            raise
    complete = connections.control.keys() & connections.heartbeat.keys()
    missing = [names[rank] for rank in range(1, len(names)) if rank not in complete]
    if missing:
        connections.close()
        raise RendezvousError(
            f"{', '.join(missing)} did not join within {timeout:g} s. Was every process started, with the "
            f"same cluster, and can it reach {names[0]}?"
        )
    for connection in connections.control.values():
        connection.send("all are here", 10)
    return connections


def call_chief(
    hosts: Sequence[str], port: int, rank: int, names: Sequence[str], fingerprint: str, timeout: float
) -> Connections:
    """Calls the chief, and waits until all others have called it.

    Args:
        hosts: names of the chief's host to try, in their order.
        port, rank, names, fingerprint, timeout: as for `receive_calls`.

    Raises:
        RendezvousError: the chief does not answer, or refuses this process.
    """
    deadline = time.monotonic() + timeout
    opened: dict[str, Connection] = {}
    try:
        for purpose in _PURPOSES:
            hello = {"rank": rank, "size": len(names), "purpose": purpose, "cluster": fingerprint}
            opened[purpose] = _call(hosts, port, hello, deadline, names[0], timeout)
        _wait_for_all(opened["control"], deadline, names[0])
    except BaseException:
        for connection in opened.values():
            connection.close()
        raise
    return Connections({0: opened["control"]}, {0: opened["heartbeat"]})


def _listen(port: int, deadline: float, name: str) -> socket.socket:
    while True:
        try:
            return listen(port)
        except OSError as error:
            # The process of an earlier try may not have ended yet.
            if error.errno != errno.EADDRINUSE or time.monotonic() > deadline:
                raise RendezvousError(
                    f"{name} cannot listen on port {port}: {error}. Does another process use it, such as an "
                    "earlier start of this training?"
                ) from error
        time.sleep(_RETRY)


def _calls(listener: socket.socket, deadline: float) -> Iterator[tuple[Connection, Any]]:
    while (left := deadline - time.monotonic()) > 0:
        listener.settimeout(left)
        try:
            connection = Connection(listener.accept()[0])
        except TimeoutError:
            return
        try:
            yield connection, connection.receive(min(10.0, left))
        except (OSError, EOFError, ValueError):
            connection.close()  # a port scanner, or a health check


def _admit(
    connections: Connections, connection: Connection, call: Any, names: Sequence[str], fingerprint: str
) -> None:
    refusal = _refusal(call, connections, names, fingerprint)
    connection.send({"refused": refusal} if refusal else {"welcome": True}, 10)
    if refusal:
        connection.close()
        return
    getattr(connections, call["purpose"])[call["rank"]] = connection


def _refusal(call: Any, connections: Connections, names: Sequence[str], fingerprint: str) -> str | None:
    if not isinstance(call, dict) or call.get("purpose") not in _PURPOSES:
        return "this call is not understood; do all processes run the same version of towerpack-trainers?"
    if call.get("cluster") != fingerprint or call.get("size") != len(names):
        return (
            f"it has another cluster: {call.get('size')} processes where the chief has {len(names)}, or "
            "other addresses. All processes must be given the same cluster, in the same order."
        )
    if call.get("rank") not in range(1, len(names)):
        return f"there is no rank {call.get('rank')} besides the chief in a cluster of {len(names)}."
    if call["rank"] in getattr(connections, call["purpose"]):
        return f"another process has joined as rank {call['rank']} already."
    return None


def _call(
    hosts: Sequence[str], port: int, hello: dict[str, Any], deadline: float, name: str, timeout: float
) -> Connection:
    reason: Exception = TimeoutError("no time was left")
    while time.monotonic() < deadline:
        for host in hosts:
            try:
                connection = connect(host, port, min(5.0, timeout))
            except OSError as error:
                reason = error
                continue
            try:
                connection.send(hello, 10)
                answer = connection.receive(10)
            except (OSError, EOFError, ValueError) as error:
                # The listener is not at the rendezvous: it is the server of an earlier try that is ending.
                reason = error
                connection.close()
                continue
            if answer == {"welcome": True}:
                return connection
            connection.close()
            raise RendezvousError(f"{name} refused this process: {answer.get('refused', answer)}")
        time.sleep(_RETRY)
    raise RendezvousError(
        f"{name} could not be joined within {timeout:g} s; the last try ended with {type(reason).__name__}: "
        f"{reason}. Was it started, and is its address right?"
    ) from reason


def _wait_for_all(control: Connection, deadline: float, name: str) -> None:
    try:
        # The chief gives up at its own deadline, which may be a little later, and closes the connection.
        control.receive(max(deadline - time.monotonic(), 0) + 10)
    except (OSError, EOFError) as error:
        raise RendezvousError(
            f"{name} gave up before all processes had joined. Its own error names those that are missing."
        ) from error
