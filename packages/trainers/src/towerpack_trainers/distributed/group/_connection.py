"""JSON messages over TCP, for all communication between processes except tensors.

Received data is never unpickled, and the reader limits the size of a message. The connections are not
encrypted, and TensorFlow's own server, which uses the same port later, runs any graph that it receives: train
on a network that you trust.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import secrets
import socket
import struct
import time
from collections.abc import Sequence
from typing import Any, final

import attrs

from ..._errors import RendezvousError
from ..cluster._cluster import TOKEN_VARIABLE

__all__ = ["LARGEST", "LARGEST_HELLO", "PURPOSES", "Connection", "Handshake", "connect", "encode", "listen"]


_HEADER = struct.Struct(">4sI")
_MAGIC = b"TWP1"
# The largest message, in bytes, from a process that belongs to the cluster.
LARGEST = 1 << 30


@final
class Connection:
    """Sends and receives messages. `fileno()` allows its use with selectors.

    Args:
        sock: the connected socket.
        largest: the largest message to read, in bytes; 1 GiB by default.

    Attributes:
        largest: may be changed between two messages.
        unsent: the number of bytes that `post` has not sent yet.
    """

    def __init__(self, sock: socket.socket, largest: int = LARGEST) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.largest = largest
        self.unsent = bytearray()
        self._sock = sock
        self._received = bytearray()

    def fileno(self) -> int:
        """Returns the socket's descriptor; -1 after `close`."""
        return self._sock.fileno()

    def send(self, message: Any, timeout: float | None = None) -> None:
        """Sends one message.

        Args:
            message: JSON values.
            timeout: the time for the whole message, in seconds; None waits without limit.

        Raises:
            OSError: the connection is broken, or the time is over (TimeoutError).
        """
        self._sock.settimeout(timeout)
        self._sock.sendall(encode(message))

    def receive(self, timeout: float | None = None) -> Any:
        """Waits for one message.

        Args:
            timeout: the time for the whole message, in seconds, over all its packets; None waits without
                limit.

        Raises:
            EOFError: the other side has closed the connection.
            ValueError: the received bytes are not of this protocol.
            OSError: the connection is broken, or the time is over (TimeoutError).
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while (message := self._next()) is None:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise TimeoutError(f"no complete message arrived within {timeout:g} s")
            self._sock.settimeout(left)
            self._read()
        return message[0]

    def receive_pending(self) -> list[Any]:
        """Returns the messages that are complete after one read. Call it when the socket is readable.

        Raises:
            EOFError, ValueError, OSError: see `receive`; it never waits.
        """
        self._never_wait()
        with contextlib.suppress(BlockingIOError):
            self._read()
        messages = []
        while (message := self._next()) is not None:
            messages += message
        return messages

    def post(self, frame: bytes = b"") -> None:
        """Sends a frame from `encode`, after earlier unsent frames, as far as possible without waiting.

        Raises:
            OSError: the connection is broken.
        """
        self._never_wait()
        waiting = bool(self.unsent)
        if waiting:
            self.unsent += frame
        rest = self.unsent if waiting else frame
        sent = 0
        with contextlib.suppress(BlockingIOError):
            while sent < len(rest):
                sent += self._sock.send(memoryview(rest)[sent:])
        if waiting:
            del self.unsent[:sent]
        elif sent < len(frame):
            self.unsent += frame[sent:]

    def close(self) -> None:
        """Closes the connection, and wakes waiting threads on both sides."""
        with contextlib.suppress(OSError):  # the other side has already closed it
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()

    def _never_wait(self) -> None:
        if self._sock.gettimeout() != 0:
            self._sock.settimeout(0)

    def _read(self) -> None:
        chunk = self._sock.recv(1 << 16)
        if not chunk:
            raise EOFError("the other side has closed the connection")
        self._received += chunk

    def _next(self) -> list[Any] | None:
        """Returns the next message in a list, or None while it is not complete."""
        if len(self._received) < _HEADER.size:
            return None
        magic, length = _HEADER.unpack_from(self._received)
        if magic != _MAGIC:
            raise ValueError(f"received {bytes(self._received[:8])!r}, which is not this protocol")
        if length > self.largest:
            raise ValueError(f"received a message of {length} bytes; expected at most {self.largest}")
        end = _HEADER.size + length
        if len(self._received) < end:
            return None
        body = bytes(self._received[_HEADER.size : end])
        del self._received[:end]
        try:
            return [json.loads(body.decode())]
        except RecursionError as error:
            raise ValueError("received a message that is nested too deeply") from error


def encode(message: Any) -> bytes:
    """Encodes a message of JSON values as bytes."""
    body = json.dumps(message).encode()
    return _HEADER.pack(_MAGIC, len(body)) + body


def listen(port: int, host: str = "") -> socket.socket:
    """Makes a socket that listens on one interface, or on all; port 0 selects a free port.

    Raises:
        OSError: the port is in use, or no interface has this address.
    """
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    # TensorFlow's server uses the port later, while the accepted connections stay open.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        # The kernel limits it further. Callers that find the queue full try again a second later.
        listener.listen(4096)
    except OSError:
        listener.close()
        raise
    return listener


def connect(host: str, port: int, timeout: float) -> Connection:
    """Connects to a listener.

    Raises:
        OSError: no process listens there, or the host cannot be reached.
    """
    return Connection(socket.create_connection((host, port), timeout))


# The largest message, in bytes, from an unauthenticated process.
LARGEST_HELLO = 1 << 16
PURPOSES = ("control", "heartbeat")


@final
@attrs.frozen
class Handshake:
    """The shared facts of a cluster's processes before they connect. Pure.

    Attributes:
        names: the name of each rank in errors.
        fingerprint: a string that is equal in all processes of this cluster.
        token: their shared secret; empty if they accept any caller.
    """

    names: Sequence[str]
    fingerprint: str
    token: str = attrs.field(default="", repr=False)

    JOINED = "joined"

    def challenge(self) -> dict[str, Any]:
        """Returns the chief's first message: a random number that is used once."""
        return {"challenge": secrets.token_hex(16)}

    def hello(self, challenge: Any, rank: int, purpose: str) -> dict[str, Any]:
        """Returns the caller's answer to a challenge.

        Raises:
            ValueError: the message is not a challenge.
        """
        if not isinstance(challenge, dict) or not isinstance(challenge.get("challenge"), str):
            raise ValueError(f"received {_excerpt(challenge)} instead of a challenge")
        said = {
            "rank": rank,
            "size": len(self.names),
            "purpose": purpose,
            "cluster": self.fingerprint,
            "nonce": secrets.token_hex(16),
        }
        return {**said, "proof": self._proof("caller", challenge["challenge"], said)}

    def refusal(self, challenge: dict[str, Any], hello: Any) -> str | None:
        """Returns the chief's reason to refuse a caller; None if the caller belongs to the cluster."""
        if not isinstance(hello, dict) or not isinstance(hello.get("proof"), str):
            return "this call is invalid; do all processes run the same version of towerpack-trainers?"
        said = {key: value for key, value in hello.items() if key != "proof"}
        if not _equal(hello["proof"], self._proof("caller", challenge["challenge"], said)):
            return (
                f"its token is not the chief's, which has {'one' if self.token else 'none'}. "
                f"{TOKEN_VARIABLE} must have the same value in all processes, or in none."
            )
        size, rank = len(self.names), said.get("rank")
        if said.get("cluster") != self.fingerprint or said.get("size") != size:
            return (
                f"it has another cluster: {said.get('size')} processes instead of the chief's {size}, or "
                "other addresses. Give all processes the same cluster, in the same order."
            )
        if said.get("purpose") not in PURPOSES or not isinstance(said.get("nonce"), str):
            return "this call is invalid; do all processes run the same version of towerpack-trainers?"
        if type(rank) is not int or not 0 < rank < size:
            return f"there is no rank {rank} besides the chief in a cluster of {size}."
        return None

    def welcome(self, challenge: dict[str, Any], hello: dict[str, Any]) -> dict[str, Any]:
        """Returns the chief's answer to an accepted hello."""
        return {"welcome": True, "proof": self._proof("chief", challenge["challenge"], hello["nonce"])}

    def check_answer(self, challenge: dict[str, Any], hello: dict[str, Any], answer: Any) -> None:
        """Checks the chief's answer to a hello.

        Raises:
            RendezvousError: the chief refuses this process, or does not prove its knowledge of the token.
            ValueError: the message is not an answer.
        """
        if not isinstance(answer, dict) or not ("refused" in answer or "proof" in answer):
            raise ValueError(f"received {_excerpt(answer)} instead of an answer")
        if "refused" in answer:
            raise RendezvousError(f"{self.names[0]} refused this process: {str(answer['refused'])[:1000]}")
        if not _equal(str(answer["proof"]), self.welcome(challenge, hello)["proof"]):
            raise RendezvousError(
                f"The process that answers at the address of {self.names[0]} does not have the token of this "
                f"cluster. {TOKEN_VARIABLE} must have the same value in all processes."
            )

    def _proof(self, role: str, challenge: str, said: Any) -> str:
        text = json.dumps([role, challenge, said], sort_keys=True)
        return hmac.new(os.fsencode(self.token), text.encode(), hashlib.sha256).hexdigest()


def _equal(received: str, expected: str) -> bool:
    return hmac.compare_digest(received.encode(errors="replace"), expected.encode())


def _excerpt(message: Any) -> str:
    return repr(message)[:60]
