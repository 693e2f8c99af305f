"""How processes find one another: all call the chief, and it answers when everybody is there.

The chief listens on its own address of the cluster, before TensorFlow's server does, so no other port is
needed. Each process keeps two lines to it: one to talk in turn, one for signs of life.
"""

from __future__ import annotations

import errno
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any

import attrs

from .._distributed_errors import RendezvousError
from ._connection import Line, connect, listen

__all__ = ["Lines", "call_chief", "receive_calls"]

_PURPOSES = ("talk", "beat")
_RETRY = 0.2


@attrs.frozen
class Lines:
    """The connections of one process by the other side's rank: a chief has all, the others have 0."""

    talk: dict[int, Line]
    beat: dict[int, Line]

    def close(self) -> None:
        """Closes all of them."""
        for line in (*self.talk.values(), *self.beat.values()):
            line.close()


def receive_calls(
    port: int,
    names: Sequence[str],
    fingerprint: str,
    timeout: float,
    ready: Callable[[int], None] | None = None,
) -> Lines:
    """The chief's side.

    Args:
        port: where to listen; 0 takes a free one.
        names: how errors call each rank.
        fingerprint: what all processes of this cluster have in common.
        timeout: seconds until all must be there.
        ready: called with the port once it can be called.

    Raises:
        RendezvousError: the port is taken, or some process did not call in time.
    """
    deadline = time.monotonic() + timeout
    lines = Lines({}, {})
    with closing(_listen(port, deadline, names[0])) as listener:
        if ready is not None:
            ready(listener.getsockname()[1])
        try:
            for line, call in _calls(listener, deadline):
                _admit(lines, line, call, names, fingerprint)
                if len(lines.talk) == len(lines.beat) == len(names) - 1:
                    break
        except BaseException:
            lines.close()
            raise
    missing = [
        names[rank] for rank in range(1, len(names)) if rank not in lines.talk or rank not in lines.beat
    ]
    if missing:
        lines.close()
        raise RendezvousError(
            f"{', '.join(missing)} did not join within {timeout:g} s. Was every process started, with the "
            f"same cluster, and can it reach {names[0]}?"
        )
    for line in lines.talk.values():
        line.send("all are here", 10)
    return lines


def call_chief(
    hosts: Sequence[str], port: int, rank: int, names: Sequence[str], fingerprint: str, timeout: float
) -> Lines:
    """The side of all others.

    Args:
        hosts: names of the chief's host to try, in their order.
        port, rank, names, fingerprint, timeout: as for `receive_calls`.

    Raises:
        RendezvousError: the chief does not answer, or refuses this process.
    """
    deadline = time.monotonic() + timeout
    opened: dict[str, Line] = {}
    try:
        for purpose in _PURPOSES:
            hello = {"rank": rank, "size": len(names), "purpose": purpose, "cluster": fingerprint}
            opened[purpose] = _call(hosts, port, hello, deadline, names[0], timeout)
        _wait_for_all(opened["talk"], deadline, names[0])
    except BaseException:
        for line in opened.values():
            line.close()
        raise
    return Lines({0: opened["talk"]}, {0: opened["beat"]})


def _listen(port: int, deadline: float, name: str) -> socket.socket:
    while True:
        try:
            return listen(port)
        except OSError as error:
            # The process of an earlier try may still be about to go.
            if error.errno != errno.EADDRINUSE or time.monotonic() > deadline:
                raise RendezvousError(
                    f"{name} cannot listen on port {port}: {error}. Does another process use it, such as an "
                    "earlier start of this training?"
                ) from error
        time.sleep(_RETRY)


def _calls(listener: socket.socket, deadline: float) -> Iterator[tuple[Line, Any]]:
    while (left := deadline - time.monotonic()) > 0:
        listener.settimeout(left)
        try:
            line = Line(listener.accept()[0])
        except TimeoutError:
            return
        try:
            yield line, line.receive(min(10.0, left))
        except (OSError, EOFError, ValueError):
            line.close()  # a port scanner, or a health check


def _admit(lines: Lines, line: Line, call: Any, names: Sequence[str], fingerprint: str) -> None:
    refusal = _refusal(call, lines, names, fingerprint)
    line.send({"refused": refusal} if refusal else {"welcome": True}, 10)
    if refusal:
        line.close()
        return
    getattr(lines, call["purpose"])[call["rank"]] = line


def _refusal(call: Any, lines: Lines, names: Sequence[str], fingerprint: str) -> str | None:
    if not isinstance(call, dict) or call.get("purpose") not in _PURPOSES:
        return "this call is not understood; do all processes run the same version of towerpack-trainers?"
    if call.get("cluster") != fingerprint or call.get("size") != len(names):
        return (
            f"it has another cluster: {call.get('size')} processes where the chief has {len(names)}, or "
            "other addresses. All processes must be given the same cluster, in the same order."
        )
    if call.get("rank") not in range(1, len(names)):
        return f"there is no rank {call.get('rank')} besides the chief in a cluster of {len(names)}."
    if call["rank"] in getattr(lines, call["purpose"]):
        return f"another process has joined as rank {call['rank']} already."
    return None


def _call(
    hosts: Sequence[str], port: int, hello: dict[str, Any], deadline: float, name: str, timeout: float
) -> Line:
    reason: Exception = TimeoutError("no time was left")
    while time.monotonic() < deadline:
        for host in hosts:
            try:
                line = connect(host, port, min(5.0, timeout))
            except OSError as error:
                reason = error
                continue
            try:
                line.send(hello, 10)
                answer = line.receive(10)
            except (OSError, EOFError, ValueError) as error:
                # It listens, but is not at the rendezvous: the server of an earlier try, on its way out.
                reason = error
                line.close()
                continue
            if answer == {"welcome": True}:
                return line
            line.close()
            raise RendezvousError(f"{name} refused this process: {answer.get('refused', answer)}")
        time.sleep(_RETRY)
    raise RendezvousError(
        f"{name} could not be joined within {timeout:g} s; the last try ended with {type(reason).__name__}: "
        f"{reason}. Was it started, and is its address right?"
    ) from reason


def _wait_for_all(talk: Line, deadline: float, name: str) -> None:
    try:
        # The chief gives up at its own deadline, which may be a little later, and closes the line.
        talk.receive(max(deadline - time.monotonic(), 0) + 10)
    except (OSError, EOFError) as error:
        raise RendezvousError(
            f"{name} gave up before all processes had joined. Its own error names those that are missing."
        ) from error
