"""`RemoteDataZMQ`: the flow on the receiving side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, final

from .. import _argument_checks as arguments
from .._errors import ArgumentError
from ..flow._flow import DataFlow
from ..formats.encoding import MAX_MESSAGE_BYTES
from ._link import LinkOptions
from ._receiver import Receiver
from ._sockets import CurveKeys, checked_address

__all__ = ["RemoteDataZMQ"]


@final
class RemoteDataZMQ(DataFlow):
    """Yields what senders on other machines, or in other processes, send; a live stream.

    A pass ends when each sender's pass has ended: when all its datapoints were taken, by this receiver or by
    others that read from the same senders. Each datapoint goes to one of them. What a receiver had not
    taken when it was closed, killed or cut off goes to others; a pass that was left early goes on with the
    next `iter()`. Datapoints of one sender come in its order, as long as no receiver is lost.

    A receiver may start before its senders, and waits for them. A connection that breaks is made again.
    Nothing is lost or doubled then, unless the connection stays broken for longer than the sender's
    `timeout`: the last datapoints that were taken may go to another receiver, too.

    Args:
        addrs: the address of a sender, or several; see `send_dataflow_zmq`.
        hwm: the most datapoints of a sender that wait here or are on their way.
        prefetch_bytes: the most bytes that these have; two datapoints, though, are always wanted.
        max_bytes: the largest message that is read; a larger one is refused before there is memory for it.
        timeout: seconds without any answer after which a sender is lost; None to wait for ever.
        keys: to encrypt; they name the sender's public key.

    Raises:
        ArgumentError: an address is none, or a number is out of its range.

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
    _holds = ()

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
        """Keeps the addresses; connects when it is iterated."""
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
        """Joins the pass that the senders are in, and yields what they hand to this receiver.

        Raises:
            MessageError: what a sender says cannot be read, or the sender refuses this receiver.
            RemoteError: a sender is lost, has failed, or was started anew in the middle of the pass.
        """
        receiver = Receiver(self._addrs, self._options)
        try:
            while (arrival := receiver.take()) is not None:
                yield arrival.datapoint
        finally:
            receiver.close()
