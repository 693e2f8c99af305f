"""A receiver's connection to one sender: sessions, heartbeats and confirmations."""

from __future__ import annotations

import secrets
from collections import deque
from dataclasses import dataclass
from time import monotonic
from typing import Any, final

import zmq

from .._errors import MessageError, RemoteError
from ..formats.encoding import pack_message, unpack_message
from ._sockets import CurveKeys, connected_socket

__all__ = ["Arrival", "Link", "LinkOptions"]

_BEFORE_A_LEASE = 5.0  # seconds until a receiver without an answer asks again
_MOST_BREAKS = 8  # consecutive sessions without a datapoint


@final
@dataclass(frozen=True, slots=True)
class LinkOptions:
    """The options shared by all connections of a receiver.

    Attributes:
        keys: CURVE keys.
        hwm: largest number of datapoints in transit or waiting.
        prefetch_bytes: largest total size of these in bytes, at least two datapoints.
        max_bytes: largest size of a message in bytes.
        timeout: seconds without an answer after which a sender is lost; None for no limit.
    """

    keys: CurveKeys | None
    hwm: int
    prefetch_bytes: int
    max_bytes: int
    timeout: float | None


@final
@dataclass(frozen=True, slots=True, eq=False)
class Arrival:
    """A datapoint waiting for the consumer; invalid after its session."""

    link: Link
    session: bytes
    index: int
    datapoint: Any


@final
class Link:
    """Requests datapoints of a pass from one sender, and confirms the taken ones.

    A session holds the datapoints from the sender. If the connection breaks, messages in both directions are
    lost: each heartbeat compares the numbers of sent and received messages, and after a loss a new session
    replaces the old one. A sender without heartbeats for the length of a lease gives the datapoints of the
    session to others, so the consumer takes nothing when the last answered heartbeat is that old.
    """

    def __init__(self, context: zmq.Context, address: str, options: LinkOptions) -> None:
        self.address, self._context, self._options = address, context, options
        self.session = b""
        self.ended = False
        self.to_confirm: deque[int] = deque()  # taken, not sent yet
        self._sent: deque[int] = deque()  # sent, not confirmed yet
        self._run, self._number = b"", -1
        self._credit = min(2, options.hwm)
        self._lease = _BEFORE_A_LEASE
        self._heard = monotonic()
        self._breaks = 0
        self._socket: zmq.Socket | None = None
        self.renew()

    @property
    def socket(self) -> zmq.Socket:
        """The socket of the session."""
        assert self._socket is not None
        return self._socket

    @property
    def valid(self) -> bool:
        """Whether the session's datapoints still belong to this receiver."""
        return self._joined and monotonic() < self._valid_until

    @property
    def interval(self) -> float:
        """Seconds between two heartbeats: several per lease, and per timeout of the sender."""
        return min(self._lease, self._options.timeout or self._lease) / 10

    def renew(self) -> None:
        """Starts a session in place of the previous one."""
        if self._socket is not None:
            self._socket.close(0)
        self._breaks += 1
        if self._breaks > _MOST_BREAKS and self._run:
            raise RemoteError(
                f"the connection to {self.address} broke {self._breaks - 1} times before a datapoint came; "
                f"are its datapoints larger than {self._options.max_bytes} bytes (max_bytes)?"
            )
        before = (self._run, self._number, self.session, [*self._sent, *self.to_confirm])
        self._sent.clear()
        self.to_confirm.clear()
        self.session = b"r" + secrets.token_bytes(15)
        self._received = self._acknowledged = self._confirmed = 0
        self._joined = False
        now = monotonic()
        self._valid_until, self._pinged = now + self._lease * 0.8, now
        options = self._options
        self._socket = connected_socket(
            self._context, self.address, self.session, options.keys, options.max_bytes
        )
        self._send(("begin", now, self._credit, options.max_bytes, before if self._run else None))

    def receive(self, arrivals: deque[Arrival]) -> None:
        """Reads the available messages and appends the datapoints to `arrivals`.

        Raises:
            MessageError: a message cannot be read, or the sender rejects this receiver's messages.
            RemoteError: the sender has failed, or was restarted in the middle of the pass.
        """
        session = self.session
        while self.session == session and not self.ended:
            try:
                frames = self.socket.recv_multipart(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                break
            buffers = [frame.buffer for frame in frames]
            message = unpack_message(buffers, self._options.max_bytes)
            self._heard = monotonic()
            arrivals.extend(self._understand(message, sum(map(len, buffers))))

    def confirm(self) -> None:
        """Confirms the datapoints taken by the consumer."""
        indices = []
        while self.to_confirm:
            indices.append(self.to_confirm.popleft())
        if indices:
            self._sent.extend(indices)
            self._acknowledged += len(indices)
            self._send(("taken", indices))

    def beat(self) -> None:
        """Sends a heartbeat if it is due, or starts a new session if the sender may have dropped this one.

        Raises:
            RemoteError: the sender has not answered for too long.
        """
        now, limit = monotonic(), self._options.timeout
        if limit is not None and now > self._heard + limit:
            raise RemoteError(
                f"no sender has answered at {self.address} for {limit:g} s; is send_dataflow_zmq running "
                "there, and does it accept this receiver's keys?"
            )
        if now > self._valid_until:
            if not self._joined:
                self._breaks = 0  # no sender is there yet
            self.renew()
        elif self._joined and now > self._pinged + self.interval:
            self._pinged = now
            self._send(("ping", now, self._acknowledged, self._credit))

    def close(self) -> None:
        """Ends the session, so that untaken datapoints go to others at once."""
        if not self.ended:
            self.confirm()
            self._send(("bye",))
        self.socket.close(None if self._joined else 0)

    def _send(self, message: Any) -> None:
        try:
            self.socket.send_multipart(pack_message(message), zmq.NOBLOCK)
        except zmq.Again:  # the queue to a missing sender is full; the next session repeats the message
            self._valid_until = 0.0

    def _understand(self, message: Any, size: int) -> list[Arrival]:
        match message:
            case ("data", bytes(run), int(number), int(index), datapoint):
                self._check_run(run, number)
                self._received += 1
                self._breaks = 0
                if self._received - self._acknowledged > self._options.hwm:
                    raise MessageError(
                        f"the sender at {self.address} has sent more untaken datapoints than "
                        f"this receiver's limit of {self._options.hwm} (hwm); is it send_dataflow_zmq?"
                    )
                self._credit = max(
                    min(2, self._options.hwm),
                    min(self._options.hwm, self._options.prefetch_bytes // max(size, 1)),
                )
                return [Arrival(self, self.session, index, datapoint)]
            case ("pong", float(stamp), int(acknowledged), int(sent), int(taken)):
                self._compare(stamp, acknowledged, sent, taken)
            case ("pass", bytes(run), int(number), float(stamp), float(lease)):
                self._join(run, number, stamp, lease)
            case ("end", bytes(run), int(number)):
                self._check_run(run, number)
                self.ended = True
            case ("unknown",):
                self.renew()
            case ("failed", str(summary), str(trace)):
                raise RemoteError(f"the sender at {self.address} has ended: {summary}\n{trace}".rstrip())
            case ("refused", str(text)):
                raise MessageError(f"the sender at {self.address} rejects this receiver: {text}")
            case _:
                raise MessageError(f"the server at {self.address} has sent a message unknown to this release")
        return []

    def _join(self, run: bytes, number: int, stamp: float, lease: float) -> None:
        self._check_run(run, number)
        self._joined = True
        self._lease = lease
        self._valid_until = stamp + lease * 0.8

    def _compare(self, stamp: float, acknowledged: int, sent: int, taken: int) -> None:
        """Extends the lease if nothing was lost between the two sides; otherwise starts a new session."""
        if sent != self._received or taken != acknowledged:
            self.renew()
            return
        while self._confirmed < taken:
            self._sent.popleft()
            self._confirmed += 1
        self._valid_until = stamp + self._lease * 0.8

    def _check_run(self, run: bytes, number: int) -> None:
        if self._run and (run, number) != (self._run, self._number):
            raise RemoteError(
                f"the sender at {self.address} was restarted in the middle of pass {self._number}; "
                "iterate again for a pass of the new one"
            )
        self._run, self._number = run, number
