"""The thread of a receiver that communicates with the senders."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Sequence
from typing import final

import zmq

from ._link import Arrival, Link, LinkOptions
from ._sockets import new_context

__all__ = ["Receiver"]

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
