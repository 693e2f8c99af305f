"""The thread of a sender that answers its receivers."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from queue import Empty, Queue
from time import monotonic
from typing import Any, final

import zmq

from .._errors import MessageError, RemoteError
from ..formats.encoding import pack_message, unpack_message
from ._shard_queue import Payload, ShardQueue

__all__ = ["ShardServer"]

_log = logging.getLogger("towerpack_dataflow")

_MOST_CONTROL = 2**20  # bytes in a message of a receiver
_LONGEST_TEXT = 500  # characters; an error about a message may quote parts of it
_MOST_COUNT = 2**63
_LONGEST_WAIT = 60.0  # seconds; ZeroMQ does not accept more than 31 bits of milliseconds
_AHEAD = 2  # datapoints made ready before a receiver requests them


@final
class ShardServer:
    """Hands out datapoints over a socket in a thread, while another thread makes them.

    Args:
        socket: a listening socket; the service uses it in its thread and closes it.
        run: distinguishes this sender from earlier ones at the address.
        lease: seconds of silence after which a receiver is lost, and others get its datapoints.
    """

    def __init__(self, socket: zmq.Socket, run: bytes, lease: float) -> None:
        self._socket, self._run, self._lease = socket, run, lease
        self._passes = ShardQueue()
        self._limits: dict[bytes, int] = {}
        self._supply: Queue[Payload | None] = Queue(_AHEAD)
        self._failure: tuple[str, str] | None = None
        self._last_pass: int | None = None
        self._stopping = False
        self._error: BaseException | None = None
        self._refused = 0
        self._over = threading.Event()
        self._wake: int | None = os.eventfd(0, os.EFD_NONBLOCK)
        self._wakes = threading.Lock()
        self._thread = threading.Thread(target=self._run_thread, name="towerpack shard server", daemon=True)
        self._thread.start()

    def put(self, payload: Payload | None) -> None:
        """Adds the next datapoint, or the end of the pass; waits while enough are ready.

        Raises:
            RemoteError: the service has ended with an error.
        """
        self._supply.put(payload)
        self._notify()
        self._check()

    def wait_until_over(self, passes: int) -> None:
        """Waits until all datapoints of `passes` passes are taken."""
        self._last_pass = passes
        self._notify()
        self._over.wait()
        self._check()

    def fail(self, summary: str, trace: str) -> None:
        """Reports a failure of the sender, with its reason, to all receivers."""
        self._failure = (summary, trace)
        self._notify()

    def close(self) -> None:
        """Ends the thread and notifies receivers that still wait for datapoints."""
        self._failure = self._failure or ("the sender was stopped", "")
        self._stopping = True
        self._notify()
        self._thread.join()
        with self._wakes:
            if self._wake is not None:
                os.close(self._wake)
                self._wake = None

    def _notify(self) -> None:
        with self._wakes:
            if self._wake is not None:
                os.eventfd_write(self._wake, 1)

    def _check(self) -> None:
        if self._error is not None:
            raise RemoteError(f"the sender cannot hand out datapoints: {self._error}") from self._error
        if self._stopping:
            raise RemoteError("the sender was closed while it was sending")

    # The rest runs in the thread.

    def _run_thread(self) -> None:
        try:
            self._serve()
        except BaseException as error:
            self._error = error
        finally:
            self._over.set()
            with contextlib.suppress(Empty):  # a thread waiting in put() continues and gets the error
                while True:
                    self._supply.get_nowait()
            self._socket.close()

    def _serve(self) -> None:
        poller = zmq.Poller()
        poller.register(self._socket, zmq.POLLIN)
        wake = self._wake
        assert wake is not None  # until the thread has ended
        poller.register(wake, zmq.POLLIN)
        while not self._stopping:
            ready = dict(poller.poll(int(1000 * min(self._lease / 10, _LONGEST_WAIT))))
            if wake in ready:
                os.eventfd_read(wake)
            if self._socket in ready:
                self._receive()
            self._expire()
            self._shard_queue()
            self._tell_failure()
        self._tell_failure()

    def _tell_failure(self) -> None:
        if self._failure is not None:
            for name in self._passes.sessions:
                self._send(name, ("failed", *self._failure))
                self._leave(name)

    def _receive(self) -> None:
        for _ in range(100):  # then it is the turn of the datapoints
            try:
                name, *frames = self._socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            try:
                self._answer(name, unpack_message(frames, _MOST_CONTROL))
            except MessageError as error:
                self._refuse(name, error)

    def _refuse(self, name: bytes, error: MessageError) -> None:
        self._refused += 1
        text = f"{error}"[:_LONGEST_TEXT]
        if self._refused & (self._refused - 1) == 0:  # 1, 2, 4, 8, ...: strangers cannot fill the log
            _log.warning("rejected a message to the sender, number %d: %s", self._refused, text)
        self._send(name, ("refused", text))

    def _answer(self, name: bytes, message: Any) -> None:
        now = monotonic()
        match message:
            case ("begin", float(stamp), int(credit), int(limit), before):
                self._begin(name, credit, limit, before, now)
                self._send(name, ("pass", self._run, self._passes.number, stamp, self._lease))
            case ("ping", float(stamp), int(acknowledged), int(credit)) if 0 <= acknowledged < _MOST_COUNT:
                counts = self._passes.hear(name, now, credit)
                answer = ("unknown",) if counts is None else ("pong", stamp, acknowledged, *counts)
                self._send(name, answer)
            case ("taken", [*indices]) if all(type(index) is int for index in indices):
                self._passes.take(name, indices)
            case ("bye",):
                self._leave(name)
            case _:
                raise MessageError("a receiver has sent a message unknown to this release")

    def _begin(self, name: bytes, credit: int, limit: int, before: Any, now: float) -> None:
        match before:
            case None:
                pass
            case (bytes(run), int(number), bytes(old), [*indices]) if all(type(i) is int for i in indices):
                if run == self._run and 0 <= number < _MOST_COUNT:
                    self._passes.take(old, indices)
                    self._leave(old)
                    if number != self._passes.number:
                        self._send(name, ("end", self._run, number))
                        return
            case _:
                raise MessageError("a receiver has started with a message unknown to this release")
        self._limits[name] = limit
        self._passes.join(name, credit, now)

    def _shard_queue(self) -> None:
        for _ in range(100):  # then it is the turn of the receivers
            if not self._passes.wants_more():
                break
            try:
                payload = self._supply.get_nowait()
            except Empty:
                break
            if payload is None:
                self._passes.end_supply()
            else:
                self._passes.supply(payload)
            self._assign()
        self._assign()
        ended = self._passes.end_pass()
        for name in ended or ():
            self._limits.pop(name, None)
            self._send(name, ("end", self._run, self._passes.number - 1))
        if self._passes.number == self._last_pass:
            self._over.set()

    def _assign(self) -> None:
        for name, payload in self._passes.assignments():
            size = sum(memoryview(frame).nbytes for frame in payload.frames)
            if size <= self._limits[name]:
                self._socket.send_multipart([name, *payload.frames], copy=False)
                continue
            text = (
                f"datapoint {payload.index} has {size} bytes, the limit is {self._limits[name]} (max_bytes)"
            )
            self._send(name, ("refused", text))
            self._leave(name)

    def _expire(self) -> None:
        for name in self._passes.silent_since(monotonic() - self._lease):
            _log.warning("a receiver was silent for %g s; its datapoints go to others", self._lease)
            self._leave(name)

    def _leave(self, name: bytes) -> None:
        self._limits.pop(name, None)
        self._passes.leave(name)

    def _send(self, name: bytes, message: Any) -> None:
        self._socket.send_multipart([name, *pack_message(message)])
