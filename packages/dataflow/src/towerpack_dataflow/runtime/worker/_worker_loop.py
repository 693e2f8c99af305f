"""The worker process: a loop that answers, and a guard that ends it together with its parent."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import pickle
import select
import signal
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import Any, NamedTuple

from ..transport import _remote_errors as _failures
from ..transport._channel import Channel, Delivery, PeerGoneError
from ..transport._copy_threads import Copies
from ..transport._slot_reuse import Warmth
from ..transport._slots import SlotPool
from ._task_handler import Work
from ._task_messages import Answer, Spec
from ._worker_info import WorkerInfo, set_worker_info
from ._worker_thread import Handed, ThreadEnd

_GRACE = 0.2  # seconds that a worker may take to leave by itself once its parent is gone
_PR_SET_PDEATHSIG = 1
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_MOST_FROM_HEAP = 2**25  # the most that glibc accepts


class Start(NamedTuple):
    """What a worker has to know about itself.

    Attributes:
        info: its number, and how many there are.
        init: called before the flow is prepared.
        work: what to do; `None` stands for "as packed".
    """

    info: WorkerInfo
    init: Callable[[int], Any] | None
    work: Work


def main(
    connection: int, package: int, sizes: str, number: int, total: int, parent: int, guarded: int
) -> None:
    """The life of a worker in a fresh interpreter; see `_process.spawn` for the arguments."""
    _ignore_interrupts()
    _keep_freed_memory()
    end = socket.socket(fileno=connection)
    _die_with(parent, end, bool(guarded))
    channel = Channel(end, pool=SlotPool(Copies()))
    info = WorkerInfo(number, total)

    def arrive() -> Start:
        from ..transport._flow_pickle import unpack

        init, work = unpack(package, [int(size) for size in sizes.split(",")])
        return Start(info, init, work)

    run(channel, arrive)


def main_forked(end: socket.socket, parent: int, guarded: bool, start: Start) -> None:
    """The same in a copy of the parent."""
    _ignore_interrupts()
    _die_with(parent, end, guarded)
    run(Channel(end, pool=SlotPool(Copies())), lambda: start)


def run(channel: Channel, arrive: Callable[[], Start]) -> None:
    """Answers until nobody asks any more, then ends the process."""
    code = 0
    try:
        Loop(channel, _prepared(channel, arrive), _Logs().take).run()
    except PeerGoneError:
        pass
    except SystemExit as request:
        code = request.code if isinstance(request.code, int) else 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    finally:
        _leave(code)


def _prepared(channel: Channel, arrive: Callable[[], Start]) -> Work:
    try:
        start = arrive()
        set_worker_info(start.info)
        _one_thread_for_opencv()
        if start.init is not None:
            start.init(start.info.number)
        start.work.prepare(channel.pool)
        _one_thread_for_opencv()
    except Exception as error:
        channel.send(_failures.pack(error))
        raise PeerGoneError from error  # the parent hangs up now
    return start.work


class _Logs(logging.Handler):
    """Keeps what this library logs, for the parent to log: nobody has set up logging in here."""

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


class Loop:
    """Takes stretches in the order they were asked for, but listens before each one.

    Args:
        channel: the connection to the parent.
        work: what to do with them.
        logs: gives what was logged since it was called last.
    """

    def __init__(
        self,
        channel: Channel | ThreadEnd,
        work: Work,
        logs: Callable[[], tuple[tuple[int, str], ...]] = tuple,
    ) -> None:
        """Has nothing to do yet."""
        self._channel = channel
        self._work = work
        self._logs = logs
        self._tasks: deque[tuple[int, int, int, Delivery | Handed]] = deque()
        self._open: set[int] = set()
        self._warmth = Warmth()

    def run(self) -> None:
        """Goes on until the parent hangs up, which is a `PeerGoneError`."""
        while True:
            self._hear(wait=not self._tasks)
            if self._tasks:
                self._answer(*self._tasks.popleft())

    def _hear(self, wait: bool = False) -> None:
        """Everything that the parent has to say."""
        while (message := self._channel.receive(wait)) is not None:
            self._note(*message)
            wait = False

    def _note(self, head: Any, delivery: Delivery | Handed) -> None:
        if head is None:  # only slots came back
            return
        kind, number, *rest = head
        if kind == "task":
            begin, end = rest
            self._tasks.append((number, begin, end, delivery))
        elif kind == "open":
            self._open.add(number)
            self._work.open(number, Spec(*rest[0]))
        elif kind == "close" and number in self._open:
            self._open.remove(number)
            self._work.close(number)

    def _answer(self, number: int, begin: int, end: int, delivery: Delivery | Handed) -> None:
        clock = perf_counter()
        behind = self._channel.pool.lent > 1
        waited = not behind and self._await_slot(clock)
        if number not in self._open:  # the consumer has left in the meantime
            self._channel.send(tuple(Answer(number, begin, begin)))
            return
        inputs = delivery.open() if delivery.size else None
        answer, made = self._work.make(number, begin, end, inputs)
        del inputs
        if behind:
            self._warmth.interrupt()
        else:
            self._warmth.learn(waited, perf_counter() - clock)
        if answer.going_on:
            self._tasks.appendleft((number, answer.end, end, delivery))
        answer = answer._replace(logs=self._logs())
        try:
            self._send(answer, made)
        except (pickle.PicklingError, TypeError, AttributeError, ValueError) as error:
            self._send_what_goes(answer, made, error)

    def _await_slot(self, clock: float) -> bool:
        """Listens until the slot that was taken last is back, if that is worth it; whether it was tried."""
        pool = self._channel.pool
        patience = self._warmth.patience(pool.newest)
        pool.trusts_caches = patience > 0
        while patience and pool.lent and self._channel.wait(clock + patience - perf_counter()):
            self._hear()
        return patience > 0

    def _send(self, answer: Answer, made: list[Any]) -> None:
        try:
            self._channel.send(tuple(answer), made or None)
        finally:
            self._channel.pool.settle(set())

    def _send_what_goes(self, answer: Answer, made: list[Any], error: Exception) -> None:
        import cloudpickle

        for place, datapoint in enumerate(made):
            try:
                cloudpickle.dumps(datapoint)
            except Exception as reason:
                error = reason
                made = made[:place]
                break
        unsent = _failures.pack(error)
        answer = answer._replace(end=answer.begin + len(made), ended=False, going_on=False, failure=unsent)
        self._send(answer, made)


def _ignore_interrupts() -> None:
    # Ctrl-C reaches the whole process group; it is the parent's to deal with. The parent blocks the signal
    # while it starts us, so that it cannot hit the interpreter's own start either.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _die_with(parent: int, end: socket.socket, guarded: bool) -> None:
    """Ends this process when the parent is gone, whatever it is doing.

    The kernel's own signal works even inside C code that never returns, but it is sent when the *thread*
    ends that started us; so it is asked for only if that was the main thread.
    """
    if guarded and sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
    threading.Thread(target=_watch, args=(parent, end.fileno()), daemon=True, name="parent watch").start()


def _watch(parent: int, connection: int) -> None:
    poll = select.poll()
    poll.register(connection, 0)  # only that the other end is closed
    # On an old kernel, or another system, the connection alone has to tell.
    with contextlib.suppress(AttributeError, OSError):
        poll.register(os.pidfd_open(parent), select.POLLIN)
    poll.poll()
    threading.Event().wait(_GRACE)
    os._exit(1)


def _keep_freed_memory() -> None:
    """Lets what a datapoint is made in serve the next one, still warm.

    By default glibc gives blocks of this size back to the system when they are freed, and gets them again,
    page by page and zeroed: for images, a tenth of a worker's time.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _MOST_FROM_HEAP)
        mallopt(_M_TRIM_THRESHOLD, 4 * _MOST_FROM_HEAP)


def _one_thread_for_opencv() -> None:
    opencv = sys.modules.get("cv2")
    if opencv is not None:
        opencv.setNumThreads(0)


def _leave(code: int) -> None:
    # As multiprocessing does: without the interpreter's long good-bye, and without hooks a fork inherited.
    # Workers of this worker notice by themselves.
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError, ValueError):
            stream.flush()
    os._exit(code)
