"""The life of a worker: its preparation, and the loop that runs tasks."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import Any, NamedTuple, final

from ..._errors import SendError
from .._spans import NO_SPANS, follow_trace, process_spans
from ..transport._channel import Channel, PeerGoneError, ReceivedMessage
from ..transport._collected_datapoints import from_table
from ..transport._flow_pickle import load_payload
from ..transport._large_copies import CopyThread, restore_environment
from ..transport._remote_errors import pack_error
from ..transport._slots import SlotPool, SlotReusePolicy
from ._process_end import die_with, keep_freed_memory, leave, one_thread_per_library, seed_global_generators
from ._single_sends import SingleSends
from ._task_handler import (
    PassSpec,
    TaskHandler,
    TaskResult,
    WorkerInfo,
    WorkerService,
    get_worker_info,
    set_worker_info,
)
from ._worker_thread import InProcessMessage, ThreadChannel

__all__ = ["WorkerLoop", "WorkerStart", "main", "main_forked"]


@final
class WorkerStart(NamedTuple):
    """The data for the start of a worker.

    Attributes:
        info: its number, and the number of workers.
        init: called before the handler is prepared.
        handler: runs the tasks, or provides a service.
        ordinal: number of workers started before it, including replaced ones.
    """

    info: WorkerInfo
    init: Callable[[int], Any] | None
    handler: TaskHandler | WorkerService
    ordinal: int


def main(
    connection: int,
    payload: int,
    info: tuple[int, int],
    ordinal: int,
    parent: int,
    lifeline: int,
    tunables: str | None,
) -> None:
    """Runs a worker in a new interpreter; see `_worker_process.spawn` for the arguments."""
    _ignore_interrupts()
    _open_standard_streams()
    restore_environment(tunables)
    keep_freed_memory()
    end = socket.socket(fileno=connection)
    die_with(parent, end, lifeline)
    channel = Channel(end, slots=SlotPool(CopyThread()))

    def arrive() -> WorkerStart:
        init, handler = load_payload(payload)
        return WorkerStart(WorkerInfo(*info), init, handler, ordinal)

    _run(channel, arrive)


def main_forked(end: socket.socket, parent: int, lifeline: int, start: WorkerStart) -> None:
    """Runs a worker in a copy of the parent."""
    _ignore_interrupts()
    _open_standard_streams()
    die_with(parent, end, lifeline)
    _run(Channel(end, slots=SlotPool(CopyThread())), lambda: start)


def _run(channel: Channel, arrive: Callable[[], WorkerStart]) -> None:
    """Runs tasks until the parent closes the connection, then ends the process."""
    code = 0
    try:
        handler = _prepared(channel, arrive)
        if isinstance(handler, WorkerService):
            handler.serve(channel)
        else:
            WorkerLoop(channel, handler, _Logs().take).run()
    except PeerGoneError:
        pass
    except SystemExit as request:
        code = request.code if isinstance(request.code, int) else 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    finally:
        leave(code)


def _prepared(channel: Channel, arrive: Callable[[], WorkerStart]) -> TaskHandler | WorkerService:
    try:
        start = arrive()
        set_worker_info(start.info)
        single_threaded: set[str] = set()
        one_thread_per_library(single_threaded)
        seed_global_generators(getattr(start.handler, "entropy", ()), start.ordinal)
        if start.init is not None:
            start.init(start.info.number)
        start.handler.prepare(channel.slots)
        one_thread_per_library(single_threaded)
    except Exception as error:
        channel.send(pack_error(error))
        raise PeerGoneError from error  # the parent closes the connection now
    channel.send(None)  # its time is measured from here on
    return start.handler


@final
class _Logs(logging.Handler):
    """Collects the log records of this library for the parent: logging is not configured in a worker."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._records: list[tuple[int, str]] = []
        logger = logging.getLogger("towerpack_dataflow")
        logger.handlers = [self]
        logger.propagate = False

    def emit(self, record: logging.LogRecord) -> None:
        self._records.append((record.levelno, record.getMessage()))

    def take(self) -> tuple[tuple[int, str], ...]:
        records, self._records = self._records, []
        return tuple(records)


@final
class WorkerLoop:
    """Runs tasks in the order of arrival, but reads all messages before each.

    Args:
        channel: the connection to the parent.
        handler: runs the tasks.
        logs: returns the records logged since its last call.
        slot_reuse: decides when to wait for a slot.
    """

    def __init__(
        self,
        channel: Channel | ThreadChannel,
        handler: TaskHandler,
        logs: Callable[[], tuple[tuple[int, str], ...]] = tuple,
        slot_reuse: SlotReusePolicy | None = None,
    ) -> None:
        """Starts without tasks."""
        self._channel = channel
        self._handler = handler
        self._logs = logs
        self._tasks: deque[tuple[int, int, int, ReceivedMessage | InProcessMessage]] = deque()
        self._open: set[int] = set()
        self._slot_reuse = slot_reuse or SlotReusePolicy()
        self._spans = NO_SPANS

    def run(self) -> None:
        """Runs until the parent closes the connection.

        Raises:
            PeerGoneError: the parent has closed the connection.
        """
        while True:
            clock, idle, spans = perf_counter(), not self._tasks, self._spans
            self._receive_all(wait=idle)
            if idle:
                spans.add("wait for a task", "wait", clock)
            if self._tasks:
                self._do(*self._tasks.popleft())
                self._spans.flush()

    def _receive_all(self, wait: bool = False) -> None:
        """Reads all messages from the parent."""
        while (received := self._channel.receive(wait)) is not None:
            self._accept(*received)
            wait = False

    def _accept(self, head: Any, message: ReceivedMessage | InProcessMessage) -> None:
        if head is None:  # the message only returned slots
            return
        kind, number, *rest = head
        if kind == "task":
            begin, end = rest
            self._tasks.append((number, begin, end, message))
        elif kind == "open":
            self._open.add(number)
            spec = PassSpec(*rest[0])
            self._trace(spec.trace)
            self._handler.open(number, spec)
        elif kind == "close" and number in self._open:
            self._open.remove(number)
            self._handler.close(number)

    def _trace(self, directory: str) -> None:
        """Joins the trace of the newest pass, if any; threads use that of their process."""
        info = get_worker_info()
        if info is not None and isinstance(self._channel, Channel):
            follow_trace(directory, f"worker {info.number} of {info.num_workers}")
        self._spans = process_spans(directory)
        self._handler.trace(self._spans)

    def _do(self, number: int, begin: int, end: int, message: ReceivedMessage | InProcessMessage) -> None:
        clock = perf_counter()
        slots = self._channel.slots
        behind = slots.lent > 1
        slots.bypasses_caches = self._slot_reuse.at_memory_speed(slots.newest)
        waited = not behind and self._await_slot(clock)
        if number not in self._open:  # the consumer has left the pass in the meantime
            self._channel.send(tuple(TaskResult(number, begin, begin)))
            return
        try:
            inputs = message.open() if message.size else None
        except Exception as error:
            failure = self._handler.packed(_not_loaded(error))
            self._channel.send(tuple(TaskResult(number, begin, begin, failure=failure)))
            return
        with self._spans.span(self._handler.work, self._handler.work, datapoints=[begin, end]):
            result, made = self._handler.make(number, begin, end, inputs)
        if self._handler.on_error != "retry":
            inputs = None  # its slots may be returned
        if behind:
            self._slot_reuse.interrupt()
        else:
            self._slot_reuse.learn(waited, perf_counter() - clock)
        if self._delivered(result._replace(logs=self._logs()), made, inputs) and result.going_on:
            self._tasks.appendleft((number, result.end, end, message))

    def _delivered(self, result: TaskResult, made: Any, inputs: list[Any] | None) -> bool:
        """Sends a result; returns whether the rest of its range is still wanted."""
        try:
            self._send(result, made)
        except PeerGoneError:
            raise
        except Exception:  # any error from pickling user objects, or lack of memory
            if result.begin == result.end:
                raise
            return SingleSends(self._send, self._handler, inputs).deliver(result, from_table(made))
        return True

    def _await_slot(self, clock: float) -> bool:
        """Reads messages until the most recent slot is back, if that pays; returns whether it waited."""
        slots = self._channel.slots
        patience = self._slot_reuse.patience(slots.newest)
        slots.trusts_caches = patience > 0
        while patience and slots.lent and self._channel.wait(clock + patience - perf_counter()):
            self._receive_all()
        if patience:
            self._spans.add("wait for a slot", "wait", clock)
        return patience > 0

    def _send(self, result: TaskResult, made: Any) -> None:
        self._spans.flush()  # a trace may end when this arrives, and must show this task
        try:
            with self._spans.span("copy", "copy"):
                self._channel.send(tuple(result), made or None)
        finally:
            self._channel.slots.settle(set())


def _not_loaded(error: Exception) -> SendError:
    found = SendError(
        "an input of the function cannot be unpickled in a worker: "
        f"{type(error).__name__}: {error}. Define its class in a module that a new interpreter can import"
    )
    found.__cause__ = error
    return found


def _ignore_interrupts() -> None:
    # Ctrl-C reaches the whole process group, and the parent handles it. The parent blocks the signal when it
    # starts this process, so that it cannot hit the interpreter's own start either.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _open_standard_streams() -> None:
    # If the parent has none, a slot would get such a number, and output of C libraries would go there.
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
