"""One worker, seen from the parent: how it is started, what it is at, how it ended."""

from __future__ import annotations

import copy
import socket
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any, NamedTuple

from ..._errors import WorkerDiedError
from ..transport import _remote_errors as _failures
from ..transport._channel import Channel
from ..transport._flow_pickle import Package
from ..worker._task_handler import Work
from ..worker._worker_info import WorkerInfo, set_thread_info
from ..worker._worker_process import Process, fork, spawn
from ..worker._worker_thread import Thread, ThreadEnd, connect


class Options(NamedTuple):
    """How a crew works.

    Attributes:
        num_workers: how many processes.
        start_method: "spawn", "fork" or "thread".
        worker_init_fn: called first in each.
        prefetch_bytes: how much may be under way, and how much the consumer may hold in views.
        stall_warning: seconds of waiting after which a warning says who waits for whom.
    """

    num_workers: int
    start_method: str
    worker_init_fn: Callable[[int], Any] | None
    prefetch_bytes: int
    stall_warning: float


class Task(NamedTuple):
    """A stretch that a worker was asked for.

    Attributes:
        begin, end: of the stretch.
        epoch: of its pass.
        since: when it was asked for, or went on.
    """

    begin: int
    end: int
    epoch: int
    since: float

    def __str__(self) -> str:
        """For messages."""
        one = self.end == self.begin + 1
        what = f"datapoint {self.begin}" if one else f"datapoints {self.begin} to {self.end - 1}"
        return f"{what} of epoch {self.epoch}"


class Member:
    """One worker.

    Attributes:
        number: among the workers.
        process: its process or thread.
        channel: the connection to it.
        knows: numbers of the passes it has been told of.
    """

    def __init__(self, number: int, process: Process | Thread, channel: Channel | ThreadEnd) -> None:
        """Takes a worker that has just been started."""
        self.number = number
        self.process = process
        self.channel = channel
        self.knows: set[int] = set()
        self._tasks: dict[tuple[int, int], Task] = {}  # by pass and begin

    @property
    def load(self) -> int:
        """How many stretches it has to do."""
        return len(self._tasks)

    @property
    def descriptors(self) -> list[int]:
        """What becomes readable when it has sent something, or ended."""
        return [number for number in (self.channel.socket.fileno(), self.process.sentinel) if number >= 0]

    def begin(self, number: int, begin: int, end: int, epoch: int) -> None:
        """It was asked for a stretch of pass `number`."""
        self._tasks[number, begin] = Task(begin, end, epoch, monotonic())

    def finish(self, number: int, begin: int, going_on: int | None) -> None:
        """It has answered one, perhaps in part, and goes on with the rest."""
        task = self._tasks.pop((number, begin))
        if going_on is not None:
            self.begin(number, going_on, task.end, task.epoch)

    def doing(self) -> str:
        """For a warning; empty if it has nothing to do."""
        if not self._tasks:
            return ""
        task = self._oldest()
        return (
            f"worker {self.number} ({self.process}) has been at {task} for {monotonic() - task.since:.0f} s"
        )

    def died(self) -> WorkerDiedError:
        """What its end means for whoever waits for it."""
        self.process.ended(1.0)
        self.process.kill()
        doing = f", while it was to make {self._oldest()}" if self._tasks else ""
        return WorkerDiedError(f"worker {self.number} ({self.process}) {self.process.how_it_ended()}{doing}")

    def _oldest(self) -> Task:
        return min(self._tasks.values(), key=lambda task: task.since)


def start(
    options: Options, number: int, work: Work, package: Package | None, others: Sequence[Member]
) -> Member:
    """Starts worker `number`.

    Args:
        options: of the crew.
        number: of the worker.
        work: what it is to do.
        package: the same, to be sent to a fresh interpreter.
        others: those that run already, whose connections a fork must not keep open.
    """
    if options.start_method == "thread":
        return _thread(options, number, work)
    ours, theirs = socket.socketpair()
    try:
        if package is not None:
            process = spawn(theirs, package.descriptor, package.sizes, number, options.num_workers)
        else:
            foreign = [ours, *(member.channel.socket for member in others)]
            process = _forked(options, number, work, theirs, foreign)
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
    return Member(number, process, Channel(ours, options.prefetch_bytes // options.num_workers))


def _forked(
    options: Options, number: int, work: Work, end: socket.socket, foreign: list[socket.socket]
) -> Process:
    from ..worker._worker_loop import Start, main_forked

    begin = Start(WorkerInfo(number, options.num_workers), options.worker_init_fn, work)
    return fork(end, foreign, lambda parent, guarded: main_forked(end, parent, guarded, begin))


def _thread(options: Options, number: int, work: Work) -> Member:
    from ..worker._worker_loop import Loop

    def live(end: ThreadEnd) -> None:
        set_thread_info(info)
        try:
            if options.worker_init_fn is not None:
                options.worker_init_fn(number)
        except Exception as error:
            end.send(_failures.pack(error))
            return
        # Threads share what the work is about, but not where they are in it.
        Loop(end, copy.copy(work).in_thread()).run()

    ours, theirs = connect()
    info = WorkerInfo(number, options.num_workers)
    return Member(number, Thread(info, theirs, live), ours)
