"""Sockets of both sides: addresses, keys, limits."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, final

import zmq
from zmq.auth.thread import ThreadAuthenticator

from .._errors import ArgumentError, RemoteError

__all__ = ["CurveKeys", "admit", "checked_address", "connected_socket", "listening_socket"]

_ADDRESS = re.compile(r"(tcp|ipc)://.+")
_CONTROL_BYTES = 2**20  # the largest message of a receiver
_LINGER = 1000  # ms in which the last messages may leave


@final
@dataclass(frozen=True)
class CurveKeys:
    """Keys that encrypt a connection, and prove to each side who the other one is (CurveZMQ).

    Args:
        public: this side's public key, 40 characters.
        secret: this side's secret key.
        peers: public keys of the other side: of the receivers that a sender serves, or of the one sender whom
            a receiver asks; several senders share a pair.

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
            ArgumentError: one is no key of 40 characters, or `peers` is empty.
        """
        keys = (self.public, self.secret, *self.peers)
        if not self.peers or not all(isinstance(key, str) and len(key) == 40 for key in keys):
            raise ArgumentError("CurveKeys takes keys of 40 characters, as zmq.curve_keypair() makes them")

    @classmethod
    def pair(cls) -> tuple[CurveKeys, CurveKeys]:
        """Makes new keys for a sender and a receiver that know each other."""
        (one, one_secret), (other, other_secret) = (
            tuple(key.decode() for key in zmq.curve_keypair()) for _ in range(2)
        )
        return cls(one, one_secret, (other,)), cls(other, other_secret, (one,))


def checked_address(name: str, address: Any) -> str:
    """Checks that `address` is one of ZeroMQ, over tcp or ipc.

    Raises:
        ArgumentError: it is something else, or its path is longer than that of a socket may be.
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
            f"received {address!r}, whose path has {len(os.fsencode(place))}. "
            f"Choose a shorter one, such as in /tmp"
        )
    return address


def listening_socket(context: zmq.Context, address: str, keys: CurveKeys | None) -> zmq.Socket:
    """Opens the socket of a sender.

    Raises:
        RemoteError: the address cannot be had.
    """
    socket = context.socket(zmq.ROUTER)
    # A receiver that is gone takes its messages along; the hand-out knows what it had.
    socket.setsockopt(zmq.ROUTER_HANDOVER, 1)
    socket.setsockopt(zmq.SNDHWM, 0)
    socket.setsockopt(zmq.MAXMSGSIZE, _CONTROL_BYTES)
    socket.setsockopt(zmq.LINGER, _LINGER)
    if keys is not None:
        socket.curve_server = True
        _set_keys(socket, keys)
    try:
        socket.bind(address)
    except zmq.ZMQError as error:
        socket.close(0)
        raise RemoteError(f"a sender cannot listen on {address}: {error}") from error
    return socket


def admit(context: zmq.Context, peers: Sequence[str]) -> ThreadAuthenticator:
    """Lets only receivers with these public keys connect to sockets of `context`."""
    guard = ThreadAuthenticator(context)
    guard.start()
    guard.configure_curve_callback("*", credentials_provider=_Admitted(peers))
    return guard


def connected_socket(
    context: zmq.Context, address: str, identity: bytes, keys: CurveKeys | None, max_bytes: int
) -> zmq.Socket:
    """Opens a socket of a receiver, which reconnects by itself.

    Raises:
        RemoteError: the address is none that can be connected to.
    """
    socket = context.socket(zmq.DEALER)
    socket.setsockopt(zmq.IDENTITY, identity)
    socket.setsockopt(zmq.RCVHWM, 0)  # the credit bounds what comes
    socket.setsockopt(zmq.MAXMSGSIZE, max_bytes)
    socket.setsockopt(zmq.LINGER, _LINGER)
    if keys is not None:
        socket.curve_serverkey = keys.peers[0].encode()
        _set_keys(socket, keys)
    try:
        socket.connect(address)
    except zmq.ZMQError as error:
        socket.close(0)
        raise RemoteError(f"a receiver cannot connect to {address}: {error}") from error
    return socket


def _set_keys(socket: zmq.Socket, keys: CurveKeys) -> None:
    socket.curve_publickey = keys.public.encode()
    socket.curve_secretkey = keys.secret.encode()


@final
class _Admitted:
    """The public keys that may connect, as pyzmq asks for them."""

    def __init__(self, peers: Sequence[str]) -> None:
        self._peers = {peer.encode() for peer in peers}

    def callback(self, domain: str, key: bytes) -> bool:
        return key in self._peers
