"""Messages between two processes: small ones over a socket, large ones through slots."""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import socket
import struct
from array import array
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple, final

import numpy as np

from ...batch._buffer_pool import freeze
from ...storage import aligned_memory, aligned_size
from ._collected_datapoints import from_table, to_table
from ._flow_pickle import dump_out_of_band
from ._slots import BorrowedSlots, SlotBlock, SlotLease, SlotPool

__all__ = ["Channel", "ChannelMessage", "PeerGoneError", "ReceivedMessage", "close_all"]

# Below these sizes a copy through the socket or the pickle is cheaper than a lease.
_INLINE_PICKLE = 2**14
_HEADER = struct.Struct("<I")
_MANY, _SMALL = 8, 2**16  # arrays in a message, and bytes of each
_MOST_DESCRIPTORS = 64
_MOST_BYTES = 2**18
_INTEGER = array("i").itemsize
_NOTHING = b""


class PeerGoneError(EOFError):
    """The process at the other end has closed its socket, or died."""


@final
class ChannelMessage(NamedTuple):
    """The part of a message sent over the socket.

    Attributes:
        head: any small value.
        pickled: the pickle itself, or its place: slot, offset, size.
        buffers: the places of its buffers.
        returned: slots of the receiver that the sender has finished reading.
        blocks: new slots, as the fields of `SlotBlock`; their descriptors are sent along.
        retired: slots of the sender that are no longer in use.
    """

    head: Any
    pickled: bytes | tuple[int, int, int]
    buffers: list[tuple[int, int, int]]
    returned: list[int]
    blocks: list[tuple[int, ...]]
    retired: list[int]


@final
class ReceivedMessage:
    """The contents of a message before unpacking; dropping it frees its slots.

    Attributes:
        size: bytes of pickle and buffers.
    """

    def __init__(self, message: ChannelMessage, borrowed: BorrowedSlots) -> None:
        """Takes a lease of each slot named in the message."""
        self._borrowed = borrowed
        self._pickled = message.pickled
        self._buffers = message.buffers
        inside = [*message.buffers, *([message.pickled] if isinstance(message.pickled, tuple) else [])]
        self._leases = {number: borrowed.lease(number) for number in {place[0] for place in inside}}
        inline = 0 if isinstance(message.pickled, tuple) else len(message.pickled)
        self.size = inline + sum(size for _, _, size in inside)

    def open(self, read_only: bool = False) -> Any:
        """Returns the value. Large arrays are views, or copies if the consumer holds too many views.

        If the consumer keeps views of earlier messages, many small arrays are copied: one kept view would
        keep the memory of all.

        Args:
            read_only: whether views are read-only.
        """
        leases, self._leases = self._leases, {}
        kept = self._borrowed.kept
        for lease in leases.values():
            lease.read_only = read_only
        pickled: Any = self._pickled
        if isinstance(pickled, tuple):
            pickled = _view(leases, pickled)
        return from_table(pickle.loads(pickled, buffers=self._arrays(leases, kept)), apart=kept)

    def _arrays(self, leases: dict[int, SlotLease], kept: bool) -> list[np.ndarray]:
        count = len(self._buffers)
        if kept and count >= _MANY and self.size < count * _SMALL:
            return [_aligned_copy(_view(leases, place)) for place in self._buffers]
        sizes: dict[int, int] = {}
        for number, _, size in self._buffers:
            sizes[number] = sizes.get(number, 0) + size
        lent = {number for number, size in sizes.items() if self._borrowed.lend(leases[number], size)}
        views = [(place[0], _view(leases, place)) for place in self._buffers]
        return [view if number in lent else _aligned_copy(view) for number, view in views]


def _view(leases: dict[int, SlotLease], place: tuple[int, int, int]) -> np.ndarray:
    number, offset, size = place
    view: np.ndarray = np.asarray(leases[number])[offset : offset + size]
    return view


def _aligned_copy(view: np.ndarray) -> np.ndarray:
    memory = aligned_memory(view.size)
    memory[:] = view
    if not view.flags.writeable:
        freeze(memory)
    return memory


@final
class Channel:
    """One end of the connection between a parent and its worker.

    Large values go through slots, and both ends bound the number of messages in progress, so a socket's
    buffer rarely fills up. If it does, the end that is not patient keeps the rest until `flush`, so that the
    two never wait for each other.

    Args:
        end: one of a pair of connected unix sockets.
        lend: bytes that this side may hold before messages are copied out.
        slots: slots for this side's messages; a new pool if `None`.
        patient: whether `send` waits until everything is sent. The parent does not: while it waited for a
            worker to read, the worker could be waiting for the parent.
        by_value: whether the other end is a new interpreter, which has no access to this one's `__main__`.

    Attributes:
        socket: the end.
        slots: the pool.
    """

    def __init__(
        self,
        end: socket.socket,
        lend: int = 2**28,
        slots: SlotPool | None = None,
        *,
        patient: bool = True,
        by_value: bool = False,
    ) -> None:
        """Takes ownership of the socket."""
        self._flags = 0 if patient else socket.MSG_DONTWAIT
        self._by_value = by_value
        self._outgoing: deque[tuple[memoryview, list[int]]] = deque()
        self.socket = end
        self.slots = slots or SlotPool()
        self._borrowed = BorrowedSlots(lend)
        self._received = bytearray()
        self._descriptors: deque[int] = deque()

    def send(self, head: Any, value: Any = None) -> None:
        """Sends `head`, which is small, and `value`, which may be of any size.

        Raises:
            PeerGoneError: the other end is closed.
            pickle.PicklingError, TypeError, AttributeError: `value` cannot be pickled; nothing was sent.
        """
        pickled, buffers = self._pack(to_table(value) if type(value) is list else value)
        slots = self.slots
        message = ChannelMessage(
            head,
            pickled,
            buffers,
            self._borrowed.returned(),
            [tuple(block) for block, _ in slots.unannounced],
            slots.retired,
        )
        descriptors = [descriptor for _, descriptor in slots.unannounced]
        slots.unannounced, slots.retired = [], []
        data = pickle.dumps(tuple(message), 5)
        self._outgoing.append((memoryview(_HEADER.pack(len(data)) + data), descriptors))
        self.flush()

    @property
    def pending(self) -> bool:
        """Whether a part of the sent data has not left this process yet."""
        return bool(self._outgoing)

    def flush(self) -> None:
        """Writes pending data, as far as the other end has room for it.

        Raises:
            PeerGoneError: the other end is closed.
        """
        outgoing = self._outgoing
        try:
            while outgoing:
                message, descriptors = outgoing.popleft()
                some = descriptors[:_MOST_DESCRIPTORS]
                # A descriptor needs at least one byte to travel with, and arrives no later than that byte.
                part = message[:1] if len(descriptors) > len(some) else message
                # Not socket.send_fds(), which does not pass the flags on.
                rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", some))] if some else []
                sent = self.socket.sendmsg([part], rights, self._flags)
                close_all(some)
                message, descriptors = message[sent:], descriptors[len(some) :]
                if message:
                    outgoing.appendleft((message, descriptors))
        except BlockingIOError:
            outgoing.appendleft((message, descriptors))
        except (BrokenPipeError, ConnectionResetError) as error:
            raise PeerGoneError from error

    @property
    def owed(self) -> int:
        """Bytes of the peer's slots without live views on this side."""
        return self._borrowed.owed

    @property
    def in_use(self) -> int:
        """Number of the peer's slots that this side still reads."""
        return self._borrowed.in_use

    def give_back(self) -> None:
        """Returns slots without waiting for a message to carry them.

        The fewer slots circulate, the more of them stay in the processor's caches.
        """
        self.send(None)

    def wait(self, seconds: float) -> bool:
        """Tells whether a message arrives within that time, or the other end is closed."""
        poll = select.poll()
        poll.register(self.socket, select.POLLIN)
        return bool(poll.poll(max(seconds, 0.0) * 1000))

    def receive(self, wait: bool = True) -> tuple[Any, ReceivedMessage] | None:
        """Returns head and contents of the next message; `None` if none has arrived and `wait` is false.

        Raises:
            PeerGoneError: the other end is closed, and all its messages are read.
            OSError: this process is out of file descriptors.
        """
        while not (fields := self._parse()):
            if not self._read(wait):
                return None
        message = ChannelMessage(*fields)
        for block in message.blocks:
            self._borrowed.adopt(SlotBlock(*block), self._next_descriptor())
        self._borrowed.drop(message.retired)
        self.slots.take_back(message.returned)
        return message.head, ReceivedMessage(message, self._borrowed)

    def hang_up(self) -> None:
        """Ends the connection for the other end, even if forks of this process hold copies of this one.

        Such a fork closes its copies with `close` alone: the connection still belongs to its parent.
        """
        with contextlib.suppress(OSError):  # the other end has closed it
            self.socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Closes the descriptors; existing views stay valid."""
        self.socket.close()
        while self._descriptors:
            os.close(self._descriptors.popleft())
        close_all([descriptor for _, descriptor in self.slots.unannounced])
        self.slots.unannounced = []
        for _, descriptors in self._outgoing:
            close_all(descriptors)
        self._outgoing.clear()

    def _pack(self, value: Any) -> tuple[bytes | tuple[int, int, int], list[tuple[int, int, int]]]:
        if value is None:
            return _NOTHING, []
        raws: list[memoryview] = []
        pickled = dump_out_of_band(value, raws, by_value=self._by_value)
        places = [self.slots.locate(raw) for raw in raws]
        loose = [raw for raw, place in zip(raws, places) if place is None]
        if len(pickled) > _INLINE_PICKLE:
            loose.append(memoryview(pickled))
        put = self._put(loose)
        wrapped = put.pop() if len(pickled) > _INLINE_PICKLE else pickled
        rest = iter(put)
        buffers = [(*place, raw.nbytes) if place else next(rest) for raw, place in zip(raws, places)]
        self.slots.settle({number for number, _, _ in buffers})
        return wrapped, buffers

    def _put(self, raws: Sequence[memoryview]) -> list[tuple[int, int, int]]:
        """Copies all parts into one slot, and returns the place of each."""
        if not raws:
            return []
        slot = self.slots.take(sum(aligned_size(raw.nbytes) for raw in raws))
        places = []
        begin = 0
        for raw in raws:
            self.slots.copy(np.frombuffer(raw, np.uint8), slot.memory[begin : begin + raw.nbytes])
            places.append((slot.number, begin, raw.nbytes))
            begin += aligned_size(raw.nbytes)
        return places

    def _read(self, wait: bool) -> bool:
        # Polls first instead of catching a BlockingIOError: Ctrl-C during one would show its traceback, too.
        if not wait and not self.wait(0):
            return False
        # Not socket.recv_fds(), which does not pass the flags on (Python 3.13 still does).
        flags = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
        room = socket.CMSG_SPACE(_MOST_DESCRIPTORS * _INTEGER)
        try:
            data, ancillary, _, _ = self.socket.recvmsg(_MOST_BYTES, room, flags)
        except ConnectionResetError as error:
            raise PeerGoneError from error
        if not data:
            raise PeerGoneError
        self._received += data
        for level, kind, content in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                whole = len(content) - len(content) % _INTEGER
                self._descriptors.extend(array("i", content[:whole]))
        return True

    def _parse(self) -> Any:
        received = self._received
        if len(received) < _HEADER.size:
            return None
        end = _HEADER.size + _HEADER.unpack_from(received)[0]
        if len(received) < end:
            return None
        message = pickle.loads(memoryview(received)[_HEADER.size : end])
        del received[:end]
        return message

    def _next_descriptor(self) -> int:
        if not self._descriptors:
            raise OSError(
                "a descriptor of shared memory was lost in transit, because this process has reached its "
                "limit of open files; raise the limit (ulimit -n), or use fewer workers"
            )
        return self._descriptors.popleft()


def close_all(descriptors: Sequence[int]) -> None:
    """Closes file descriptors."""
    for descriptor in descriptors:
        os.close(descriptor)
