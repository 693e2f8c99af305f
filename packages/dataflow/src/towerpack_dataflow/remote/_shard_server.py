"""The thread of a sender that answers its receivers."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from queue import Empty, Queue
from time import monotonic
from typing import Any, final

import zmq

from .._errors import MessageError, RemoteError
from ..formats.encoding._messages import pack_message, unpack_message

__all__ = ["Payload", "ShardQueue", "ShardServer"]

_MOST_CREDIT = 2**12  # limit for one receiver, for any request


@final
@dataclass(frozen=True, eq=False, slots=True)
class Payload:
    """A datapoint in transit.

    Attributes:
        index: its number in the pass.
        frames: the message with the datapoint.
    """

    index: int
    frames: list[Any]


@final
@dataclass(slots=True)
class _Session:
    """One receiver, from the start of its pass or its connection to the end."""

    credit: int
    heard: float
    held: dict[int, Payload] = field(default_factory=dict)
    sent: int = 0
    taken: int = 0


@final
class ShardQueue:
    """Assigns each datapoint of a pass to one receiver, and to another one if that is lost.

    A receiver holds at most as many datapoints as its credit. A datapoint counts as handed out when its
    receiver reports that the consumer has taken it. When all are handed out, the pass is over and the next
    one begins. A plain class, without sockets and clock.

    Example:
        >>> passes = ShardQueue()
        >>> passes.join("a", credit=1, now=0.0)
        >>> passes.supply(Payload(0, []))
        >>> [(name, payload.index) for name, payload in passes.assignments()]
        [('a', 0)]
        >>> passes.leave("a")
        >>> passes.join("b", credit=1, now=0.0)
        >>> [(name, payload.index) for name, payload in passes.assignments()]
        [('b', 0)]
    """

    def __init__(self) -> None:
        self.number = 0  # number of the current pass
        self._sessions: dict[Any, _Session] = {}
        self._waiting: deque[Payload] = deque()
        self._supplied = False

    @property
    def sessions(self) -> list[Any]:
        """The receivers of the current pass."""
        return list(self._sessions)

    def wants_more(self) -> bool:
        """Tells whether a receiver is ready for a datapoint that is not available yet."""
        if self._supplied or self._waiting:
            return False
        return any(len(session.held) < session.credit for session in self._sessions.values())

    def supply(self, payload: Payload) -> None:
        """Adds the next datapoint of the pass."""
        self._waiting.append(payload)

    def end_supply(self) -> None:
        """Marks the end of the pass's datapoints."""
        self._supplied = True

    def join(self, name: Any, credit: int, now: float) -> None:
        """Starts a session; an existing one of the same name is kept."""
        session = self._sessions.setdefault(name, _Session(0, now))
        session.credit = max(1, min(credit, _MOST_CREDIT))

    def hear(self, name: Any, now: float, credit: int | None = None) -> tuple[int, int] | None:
        """Records a heartbeat; returns the numbers of datapoints sent to the receiver and taken by it.

        Returns:
            None: there is no such session.
        """
        session = self._sessions.get(name)
        if session is None:
            return None
        session.heard = now
        if credit is not None:
            session.credit = max(1, min(credit, _MOST_CREDIT))
        return session.sent, session.taken

    def take(self, name: Any, indices: Iterable[int]) -> None:
        """Marks datapoints taken by the consumer of `name` as handed out."""
        session = self._sessions.get(name)
        if session is not None:
            for index in indices:
                session.taken += session.held.pop(index, None) is not None

    def leave(self, name: Any) -> None:
        """Ends a session; its untaken datapoints are assigned to others."""
        session = self._sessions.pop(name, None)
        if session is not None:
            self._waiting.extendleft(reversed(session.held.values()))

    def silent_since(self, moment: float) -> list[Any]:
        """Returns the sessions with their last message before `moment`."""
        return [name for name, session in self._sessions.items() if session.heard < moment]

    def assignments(self) -> Iterator[tuple[Any, Payload]]:
        """Assigns datapoints to the receivers, first to those that hold the fewest."""
        while self._waiting:
            free = [
                (len(one.held), name) for name, one in self._sessions.items() if len(one.held) < one.credit
            ]
            if not free:
                return
            _, name = min(free, key=lambda pair: pair[0])
            session, payload = self._sessions[name], self._waiting.popleft()
            session.held[payload.index] = payload
            session.sent += 1
            yield name, payload

    def end_pass(self) -> list[Any] | None:
        """Starts the next pass if this one is over; returns the receivers to notify.

        Returns:
            None: the pass is not over, or has no receivers yet.
        """
        busy = self._waiting or any(session.held for session in self._sessions.values())
        if not self._supplied or busy or not self._sessions:
            return None
        names = list(self._sessions)
        self._sessions.clear()
        self._supplied = False
        self.number += 1
        return names


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
