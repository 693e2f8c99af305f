"""Sockets of both sides: addresses, keys, limits."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, final

import zmq
from zmq.auth.thread import ThreadAuthenticator

from .._errors import ArgumentError, RemoteError

__all__ = ["CurveKeys", "admit", "checked_address", "connected_socket", "listening_socket", "new_context"]

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
