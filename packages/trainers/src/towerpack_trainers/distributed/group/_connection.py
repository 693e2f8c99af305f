"""JSON messages over TCP, for all communication between processes except tensors.

Received data is never unpickled, and the reader limits the size of a message. The connections are not
encrypted, and TensorFlow's own server, which uses the same port later, runs any graph that it receives: train
on a network that you trust.
"""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import time
from typing import Any, final

__all__ = ["LARGEST", "Connection", "connect", "encode", "listen"]

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
