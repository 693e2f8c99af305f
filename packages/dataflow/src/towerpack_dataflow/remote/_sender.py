"""The sending side: `send_dataflow_zmq` and `DataFlowSender`."""

from __future__ import annotations

import secrets
import traceback
from collections.abc import Iterable
from itertools import count
from typing import Any, final

import zmq
from zmq.auth.thread import ThreadAuthenticator

from .. import _argument_checks as arguments
from .._errors import ArgumentTypeError
from ..formats.encoding._messages import pack_message
from ..storage import snapshot
from ._link import CurveKeys, admit, checked_address, listening_socket, new_context
from ._shard_server import Payload, ShardServer

__all__ = ["DataFlowSender", "send_dataflow_zmq"]


def send_dataflow_zmq(
    df: Iterable[Any],
    addr: str,
    *,
    passes: int | None = None,
    timeout: float = 30.0,
    keys: CurveKeys | None = None,
) -> None:
    """Sends the datapoints of a flow to receivers, pass after pass, until it is interrupted.

    Any number of `RemoteDataZMQ` read from the address; each datapoint of a pass goes to one of them. The
    next pass begins when all datapoints of the last one are taken. No datapoint is made before the receivers
    need it.

    Without `keys`, anyone who can connect to the address can read the data.

    Args:
        df: a flow, or another iterable, with datapoints of arrays, numbers, strings and bytes.
        addr: address to listen on: `"tcp://*:5555"`, or `"ipc:///tmp/data"` for this machine alone.
        passes: number of passes to send; None for no end.
        timeout: seconds of silence after which a receiver is lost, and others get its untaken datapoints.
        keys: keys for encryption; only the receivers named in them are accepted.

    Raises:
        RemoteError: the address is not available.
        SendError: a datapoint contains an object that cannot be sent. Receivers then get a `RemoteError`, as
            for any exception in the flow.
    """
    with DataFlowSender(df, addr, timeout=timeout, keys=keys) as sender:
        sender.run(passes)


@final
class DataFlowSender:
    """A sender that listens from its construction and reports its address.

    Use it in place of `send_dataflow_zmq` to let the system choose the port. A context manager.

    Args:
        df: a flow, or another iterable.
        addr: address to listen on; `"tcp://127.0.0.1:*"` for any free port.
        timeout: seconds of silence after which a receiver is lost.
        keys: keys for encryption; only the receivers named in them are accepted.

    Raises:
        ArgumentError: the address or the timeout is invalid.
        ArgumentTypeError: `df` cannot be iterated over.
        RemoteError: the address is not available.

    Example:
        >>> with DataFlowSender([[1], [2]], "tcp://127.0.0.1:*") as sender:
        ...     sender.address.startswith("tcp://127.0.0.1:")
        True
    """

    def __init__(
        self, df: Iterable[Any], addr: str, *, timeout: float = 30.0, keys: CurveKeys | None = None
    ) -> None:
        """Starts listening; reads nothing from `df`."""
        if not hasattr(df, "__iter__"):
            raise ArgumentTypeError(f"a sender takes a flow or an iterable; received {type(df).__name__}")
        lease = arguments.seconds("timeout", timeout)
        address = checked_address("addr", addr)
        self._df, self._run = df, secrets.token_bytes(8)
        self._context = new_context()
        self._guard: ThreadAuthenticator | None = None
        try:
            self._guard = admit(self._context, keys.peers) if keys is not None else None
            socket = listening_socket(self._context, address, keys)
        except BaseException:
            self._end_context()
            raise
        self.address: str = socket.getsockopt(zmq.LAST_ENDPOINT).rstrip(b"\0").decode()
        self._service = ShardServer(socket, self._run, lease)

    def run(self, passes: int | None = None) -> None:
        """Sends passes of the flow; returns after the last datapoint is taken.

        Args:
            passes: number of passes; None for no end.
        """
        if passes is not None:
            passes = arguments.count("passes", passes, instead=", or None for no end")
        try:
            for number in count() if passes is None else range(passes):
                for index, datapoint in enumerate(self._df):
                    message = ("data", self._run, number, index, snapshot(datapoint))
                    self._service.put(Payload(index, pack_message(message)))
                self._service.put(None)
            if passes is not None:
                self._service.wait_until_over(passes)
        except Exception as error:
            self._service.fail(f"{type(error).__name__}: {error}", "".join(traceback.format_exception(error)))
            raise

    def close(self) -> None:
        """Stops listening and notifies receivers in the middle of a pass."""
        self._service.close()
        self._end_context()

    def __enter__(self) -> DataFlowSender:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _end_context(self) -> None:
        if self._guard is not None:
            self._guard.stop()
        self._context.term()
