"""A receiver's connection to one sender: sessions, heartbeats and confirmations."""

from __future__ import annotations

import os
import re
import secrets
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, final

import zmq
from zmq.auth.thread import ThreadAuthenticator

from .._errors import ArgumentError, MessageError, RemoteError
from ..formats.encoding._messages import pack_message, unpack_message

__all__ = [
    "Arrival",
    "CurveKeys",
    "Link",
    "LinkOptions",
    "admit",
    "checked_address",
    "connected_socket",
    "listening_socket",
    "new_context",
]

_KEY = re.compile(r"[0-9a-zA-Z.:+=^!/*?&<>()\[\]{}@%$#-]{40}")  # Z85
_ADDRESS = re.compile(r"(tcp|ipc)://.+")
_CONTROL_BYTES = 2**20  # the largest message of a receiver
_MOST_RECEIVED = 16  # waiting messages of one receiver; further ones wait in its memory
# Messages waiting for one receiver: more than its credit. ZeroMQ drops messages above this limit, and a
# receiver that has missed one starts a new session.
_MOST_SENT = 2**13
_DESCRIPTORS = 16  # for a context, its sockets and authenticator; ZeroMQ aborts the process without them
_LINGER = 1000  # ms to send the last messages


@final
@dataclass(frozen=True)
class CurveKeys:
    """Keys that encrypt a connection and authenticate both sides (CurveZMQ).

    Args:
        public: this side's public key, 40 characters.
        secret: this side's secret key.
        peers: public keys of the other side: of the receivers that a sender accepts, or of the one sender of
            a receiver; several senders share a pair.

    Example:
        >>> sender, receiver = CurveKeys.pair()
        >>> sender.peers == (receiver.public,) and receiver.peers == (sender.public,)
        True
    """

    public: str
    secret: str = field(repr=False)
    peers: tuple[str, ...]

    def __post_init__(self) -> None:
        """Checks the keys.

        Raises:
            ArgumentError: a key does not have 40 characters, or `peers` is empty.
        """
        keys = (self.public, self.secret, *self.peers)
        if not self.peers or not all(isinstance(key, str) and _KEY.fullmatch(key) for key in keys):
            raise ArgumentError("CurveKeys takes keys of 40 characters, from zmq.curve_keypair()")

    @classmethod
    def pair(cls) -> tuple[CurveKeys, CurveKeys]:
        """Creates new keys for a sender and a receiver that accept each other."""
        (one, one_secret), (other, other_secret) = (
            tuple(key.decode() for key in zmq.curve_keypair()) for _ in range(2)
        )
        return cls(one, one_secret, (other,)), cls(other, other_secret, (one,))


def checked_address(name: str, address: Any) -> str:
    """Checks that `address` is a ZeroMQ address over tcp or ipc.

    Raises:
        ArgumentError: it has another form, or its path exceeds the limit for sockets.
    """
    if not (isinstance(address, str) and _ADDRESS.fullmatch(address)):
        raise ArgumentError(
            f'{name} is an address such as "tcp://192.168.0.5:5555" or "ipc:///tmp/data"; '
            f"received {address!r}"
        )
    transport, _, place = address.partition("://")
    if transport == "ipc" and len(os.fsencode(place)) > zmq.IPC_PATH_MAX_LEN:
        raise ArgumentError(
            f"{name} names a socket by a path of at most {zmq.IPC_PATH_MAX_LEN} bytes, the system's limit; "
            f"received {address!r} with a path of {len(os.fsencode(place))}. "
            f"Choose a shorter one, such as in /tmp"
        )
    return address


def new_context() -> zmq.Context:
    """Creates a ZeroMQ context.

    Raises:
        RemoteError: the process has too few file descriptors left.
    """
    spare: list[int] = []
    try:
        while len(spare) < _DESCRIPTORS:
            spare.append(os.eventfd(0))
    except OSError as error:
        raise RemoteError(
            f"a connection by ZeroMQ takes up to {_DESCRIPTORS} file descriptors, but {len(spare)} are left: "
            f"{error}. Close files, or raise the limit with `ulimit -n`"
        ) from error
    finally:
        for descriptor in spare:
            os.close(descriptor)
    return zmq.Context()


def listening_socket(context: zmq.Context, address: str, keys: CurveKeys | None) -> zmq.Socket:
    """Opens the socket of a sender.

    Raises:
        RemoteError: the address is not available.
    """
    with _opened(context, zmq.ROUTER, f"a sender cannot listen on {address}") as socket:
        # The messages of a lost receiver are lost, too; the shard queue has a record of them.
        socket.setsockopt(zmq.ROUTER_HANDOVER, 1)
        socket.setsockopt(zmq.SNDHWM, _MOST_SENT)
        socket.setsockopt(zmq.RCVHWM, _MOST_RECEIVED)
        socket.setsockopt(zmq.MAXMSGSIZE, _CONTROL_BYTES)
        if keys is not None:
            socket.curve_server = True
            _set_keys(socket, keys)
        socket.bind(address)
    return socket


@contextmanager
def _opened(context: zmq.Context, kind: int, failure: str) -> Iterator[zmq.Socket]:
    """Opens a socket, and closes it after a ZeroMQ error in the block."""
    socket = None
    try:
        socket = context.socket(kind)
        socket.setsockopt(zmq.LINGER, _LINGER)
        yield socket
    except zmq.ZMQError as error:
        if socket is not None:
            socket.close(0)
        raise RemoteError(f"{failure}: {error}") from error


def admit(context: zmq.Context, peers: Sequence[str]) -> ThreadAuthenticator:
    """Accepts only receivers with these public keys on sockets of `context`."""
    guard = ThreadAuthenticator(context)
    guard.start()
    guard.configure_curve_callback("*", credentials_provider=_PublicKeys(peers))
    return guard


def connected_socket(
    context: zmq.Context, address: str, identity: bytes, keys: CurveKeys | None, max_bytes: int
) -> zmq.Socket:
    """Opens a socket of a receiver, which reconnects automatically.

    Raises:
        RemoteError: the address is not valid for a connection.
    """
    with _opened(context, zmq.DEALER, f"a receiver cannot connect to {address}") as socket:
        socket.setsockopt(zmq.IDENTITY, identity)
        socket.setsockopt(zmq.RCVHWM, 0)  # the credit limits incoming messages
        socket.setsockopt(zmq.MAXMSGSIZE, max_bytes)
        if keys is not None:
            socket.curve_serverkey = keys.peers[0].encode()
            _set_keys(socket, keys)
        socket.connect(address)
    return socket


def _set_keys(socket: zmq.Socket, keys: CurveKeys) -> None:
    socket.curve_publickey = keys.public.encode()
    socket.curve_secretkey = keys.secret.encode()


@final
class _PublicKeys:
    """The accepted public keys, in the interface of pyzmq."""

    def __init__(self, peers: Sequence[str]) -> None:
        self._peers = {peer.encode() for peer in peers}

    def callback(self, domain: str, key: bytes) -> bool:
        return key in self._peers


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
