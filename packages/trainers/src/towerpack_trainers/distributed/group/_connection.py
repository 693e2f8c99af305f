"""JSON messages over TCP: all that processes send one another besides tensors.

Nothing that arrives is unpickled. The connections are neither encrypted nor authenticated, and TensorFlow's
own server takes the port over later: train on a network that you trust.
"""

from __future__ import annotations

import contextlib
import json
import socket
import struct
from typing import Any, final

__all__ = ["Connection", "connect", "listen"]

_HEADER = struct.Struct(">4sI")
_MAGIC = b"TWP1"
_LARGEST = 1 << 30


@final
class Connection:
    """Carries messages both ways. `fileno()` makes it usable with selectors.

    Args:
        sock: the connected socket.
    """

    def __init__(self, sock: socket.socket) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sock = sock
        self._received = bytearray()

    def fileno(self) -> int:
        """Returns the socket's descriptor; -1 when closed."""
        return self._sock.fileno()

    def send(self, message: Any, timeout: float | None = None) -> None:
        """Sends one message.

        Args:
            message: JSON values.
            timeout: seconds; None waits without limit.

        Raises:
            OSError: the connection is broken, or the time is over (TimeoutError).
        """
        body = json.dumps(message).encode()
        self._sock.settimeout(timeout)
        self._sock.sendall(_HEADER.pack(_MAGIC, len(body)) + body)

    def receive(self, timeout: float | None = None) -> Any:
        """Waits for one message.

        Raises:
            EOFError: the other side has closed the connection.
            ValueError: the received bytes are not of this protocol.
            OSError: the connection is broken, or the time is over (TimeoutError).
        """
        while (message := self._next()) is None:
            self._sock.settimeout(timeout)
            self._read()
        return message[0]

    def receive_pending(self) -> list[Any]:
        """Returns the messages that are complete after one read; to be called when the socket is readable.

        Raises:
            EOFError, ValueError, OSError: as `receive`.
        """
        self._sock.settimeout(5.0)
        self._read()
        messages = []
        while (message := self._next()) is not None:
            messages += message
        return messages

    def close(self) -> None:
        """Closes the connection, and wakes the threads that wait on either side of it."""
        with contextlib.suppress(OSError):  # the other side has closed it already
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()

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
        if magic != _MAGIC or length > _LARGEST:
            raise ValueError(f"received {bytes(self._received[:8])!r}, which is not of this protocol")
        end = _HEADER.size + length
        if len(self._received) < end:
            return None
        body = bytes(self._received[_HEADER.size : end])
        del self._received[:end]
        return [json.loads(body)]


def listen(port: int) -> socket.socket:
    """Makes a socket that listens on all interfaces; port 0 takes a free one.

    Raises:
        OSError: the port is taken.
    """
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    # TensorFlow's server takes the port over while the accepted connections live on.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("", port))
        listener.listen(128)
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
