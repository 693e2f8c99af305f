"""`RemoteDataZMQ`: the flow on the receiving side, and its thread."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, final

import zmq

from .. import _argument_checks as arguments
from .._errors import ArgumentError
from ..flow._flow import DataFlow
from ..formats.encoding._messages import MAX_MESSAGE_BYTES
from ._link import Arrival, CurveKeys, Link, LinkOptions, checked_address, new_context

__all__ = ["Receiver", "RemoteDataZMQ"]


@final
class RemoteDataZMQ(DataFlow):
    """Yields the datapoints of senders on other machines, or in other processes; a live stream.

    A pass ends when the pass of each sender has ended: when all its datapoints were taken, by this receiver
    or by others that read from the same senders. Each datapoint goes to one of them. Untaken datapoints of a
    receiver that is closed, killed or disconnected go to others; a pass that was left early continues with
    the next `iter()`. Datapoints of one sender come in its order, as long as no receiver is lost.

    A receiver may start before its senders, and waits for them. A broken connection is restored. Nothing is
    lost or duplicated then, unless the connection stays broken for longer than the sender's `timeout`: the
    last datapoints taken may then also go to another receiver.

    Args:
        addrs: the address of a sender, or several; see `send_dataflow_zmq`.
        hwm: largest number of datapoints of a sender that wait here or are in transit.
        prefetch_bytes: largest total size of these in bytes; at least two datapoints are always requested.
        max_bytes: largest message to read; a larger one is rejected before its memory is allocated.
        timeout: seconds without any answer after which a sender is lost; None to wait for ever.
        keys: keys for encryption; they include the sender's public key.

    Raises:
        ArgumentError: an address is invalid, or a number is out of range.

    Example:
        >>> import threading
        >>> from towerpack_dataflow.remote import DataFlowSender, RemoteDataZMQ
        >>> with DataFlowSender([[1], [2], [3]], "tcp://127.0.0.1:*") as sender:
        ...     thread = threading.Thread(target=sender.run, args=(1,))
        ...     thread.start()
        ...     print(list(RemoteDataZMQ(sender.address)))
        ...     thread.join()
        [[1], [2], [3]]
    """

    live = True

    def __init__(
        self,
        addrs: str | Sequence[str],
        *,
        hwm: int = 50,
        prefetch_bytes: int = 2**28,
        max_bytes: int = MAX_MESSAGE_BYTES,
        timeout: float | None = 60.0,
        keys: CurveKeys | None = None,
    ) -> None:
        """Stores the addresses; connects at the first iteration."""
        self._addrs = [
            checked_address("addrs", one) for one in ([addrs] if isinstance(addrs, str) else addrs)
        ]
        if not self._addrs:
            raise ArgumentError("addrs is the address of a sender, or several; received none")
        self._options = LinkOptions(
            keys,
            arguments.count("hwm", hwm),
            arguments.count("prefetch_bytes", prefetch_bytes),
            arguments.count("max_bytes", max_bytes),
            None if timeout is None else arguments.seconds("timeout", timeout),
        )

    def __iter__(self) -> Iterator[Any]:
        """Joins the current pass of the senders, and yields the datapoints assigned to this receiver.

        Raises:
            MessageError: a message of a sender cannot be read, or the sender rejects this receiver.
            RemoteError: a sender is lost, has failed, or was restarted in the middle of the pass.
        """
        receiver = Receiver(self._addrs, self._options)
        try:
            while (arrival := receiver.take()) is not None:
                yield arrival.datapoint
        finally:
            receiver.close()


_LONGEST_WAIT = 0.5  # seconds


@final
class Receiver:
    """Reads one pass of several senders, in a thread.

    Args:
        addresses: addresses of the senders.
        options: options of the connections.

    Raises:
        RemoteError: an address cannot be connected to.
    """

    def __init__(self, addresses: Sequence[str], options: LinkOptions) -> None:
        self._context = new_context()
        # Not a comprehension: an error would lose its list along with the sockets to close.
        self._links: list[Link] = []
        try:
            for address in addresses:
                self._links.append(Link(self._context, address, options))
        except BaseException:
            self._context.destroy(0)
            raise
        self._arrivals: deque[Arrival] = deque()
        self._changed = threading.Condition()
        self._error: BaseException | None = None
        self._closing = False
        self._wake = os.eventfd(0, os.EFD_NONBLOCK)
        self._thread = threading.Thread(target=self._run, name="towerpack receiver", daemon=True)
        self._thread.start()

    def take(self) -> Arrival | None:
        """Waits for the next datapoint and marks it as taken; None at the end of the pass.

        Raises:
            MessageError: a message of a sender cannot be read, or it rejects this receiver.
            RemoteError: a sender is lost, or has failed.
        """
        with self._changed:
            while True:
                arrival = self._next_valid()
                if arrival is not None:
                    arrival.link.to_confirm.append(arrival.index)
                    os.eventfd_write(self._wake, 1)
                    return arrival
                if self._error is not None:
                    raise self._error
                if not self._arrivals and all(link.ended for link in self._links):
                    return None
                self._changed.wait()

    def close(self) -> None:
        """Ends the thread; untaken datapoints go to other receivers."""
        self._closing = True
        os.eventfd_write(self._wake, 1)
        self._thread.join()
        os.close(self._wake)

    def _next_valid(self) -> Arrival | None:
        for _ in range(len(self._arrivals)):
            arrival = self._arrivals.popleft()
            if arrival.session == arrival.link.session:
                if arrival.link.valid:
                    return arrival
                self._arrivals.append(arrival)
        return None

    # The rest runs in the thread.

    def _run(self) -> None:
        try:
            while not self._closing:
                self._poll()
                with self._changed:
                    self._exchange()
                    self._changed.notify()
        except BaseException as error:
            with self._changed:
                self._error = error
                self._changed.notify()
        finally:
            with self._changed:
                for link in self._links:
                    link.close()
            self._context.term()

    def _poll(self) -> None:
        poller = zmq.Poller()
        poller.register(self._wake, zmq.POLLIN)
        open_links = [link for link in self._links if not link.ended]
        for link in open_links:
            poller.register(link.socket, zmq.POLLIN)
        wait = min([_LONGEST_WAIT, *(link.interval for link in open_links)])
        if self._wake in dict(poller.poll(int(wait * 1000))):
            os.eventfd_read(self._wake)

    def _exchange(self) -> None:
        for link in self._links:
            if not link.ended:
                link.confirm()
                link.receive(self._arrivals)
            if not link.ended:
                link.beat()
