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
