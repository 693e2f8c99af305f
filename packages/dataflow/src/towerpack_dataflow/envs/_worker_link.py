"""Messages between a vector environment and a worker: an empty one signals a change in the shared memory."""

from __future__ import annotations

import pickle
import socket
import struct
from typing import Any, final

from ..runtime.transport import PeerGoneError
from ..storage import dump_by_value

__all__ = ["WorkerLink"]

_HEADER = struct.Struct("<I")
_BELL = _HEADER.pack(0)
_MOST_BYTES = 2**16


@final
class WorkerLink:
    """One end of a connection, used after the `Channel` has set up the shared memory.

    A step sends four bytes in each direction. `Channel` takes twice the time for its messages, which carry
    slots.

    Args:
        end: one of a pair of connected unix sockets.
    """

    def __init__(self, end: socket.socket) -> None:
        """Takes ownership of the socket."""
        self._end = end
        self._received = bytearray()

    def ring(self) -> None:
        """Sends the empty message.

        Raises:
            PeerGoneError: the other end is closed.
        """
        self._sent(_BELL)

    def send(self, value: Any) -> None:
        """Sends a value; sends classes defined in the user's script by value.

        Raises:
            PeerGoneError: the other end is closed.
            pickle.PicklingError, TypeError, AttributeError: `value` cannot be pickled; nothing was sent.
        """
        pickled = dump_by_value(value)
        self._sent(_HEADER.pack(len(pickled)) + pickled)

    def receive(self) -> list[Any]:
        """Waits for bytes and returns the completed messages; `None` stands for the empty one.

        Raises:
            PeerGoneError: the other end is closed.
        """
        try:
            data = self._end.recv(_MOST_BYTES)
        except ConnectionResetError as error:
            raise PeerGoneError from error
        if not data:
            raise PeerGoneError
        if data == _BELL and not self._received:
            return [None]
        self._received += data
        messages = []
        while len(self._received) >= _HEADER.size:
            end = _HEADER.size + _HEADER.unpack_from(self._received)[0]
            if len(self._received) < end:
                break
            pickled = bytes(self._received[_HEADER.size : end])
            del self._received[:end]
            messages.append(pickle.loads(pickled) if pickled else None)
        return messages

    def _sent(self, data: bytes) -> None:
        try:
            self._end.sendall(data)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise PeerGoneError from error
