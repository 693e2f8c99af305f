"""One worker on the parent's side: start, tasks and end."""

from __future__ import annotations

import contextlib
import copy
import select
import socket
from collections.abc import Sequence
from math import inf
from time import monotonic
from typing import Any, NamedTuple, final

from ..._errors import DatapointTimeoutError, WorkerDiedError
from ..transport._channel import Channel
from ..transport._flow_pickle import WorkerPayload
from ..transport._remote_errors import pack_error
from ..worker._task_handler import PassSpec, TaskHandler, WorkerInfo, WorkerService, set_thread_info
from ..worker._worker_loop import WorkerLoop, WorkerStart, main_forked
from ..worker._worker_options import WorkerOptions
from ..worker._worker_process import WorkerProcess, fork, spawn
from ..worker._worker_thread import ThreadChannel, WorkerThread, connected_channels

__all__ = ["LONGEST_WAIT", "WorkerHandle", "WorkerPoll", "start_worker"]


@final
class _Task(NamedTuple):
    """A range assigned to a worker.

    Attributes:
        begin, end: bounds of the range.
        epoch: epoch of its pass.
        since: time at which the worker received it, or sent a part of it.
        number: number of its pass.
        inputs: the inputs sent with it, if it may have to be sent again.
        made_before: number of datapoints the worker makes first, because a stream is read from its beginning.
    """

    begin: int
    end: int
    epoch: int
    since: float
    number: int
    inputs: list[Any] | None = None
    made_before: int = 0

    def __str__(self) -> str:
        """Names the datapoints, for messages."""
        one = self.end == self.begin + 1
        what = f"datapoint {self.begin}" if one else f"datapoints {self.begin} to {self.end - 1}"
        return f"{what} of epoch {self.epoch}"


@final
class WorkerHandle:
    """One worker.

    Attributes:
        number: number among the workers.
        process: its process or thread.
        channel: the connection to it.
        open_passes: numbers of the passes open in it.
    """

    def __init__(
        self, number: int, process: WorkerProcess | WorkerThread, channel: Channel | ThreadChannel
    ) -> None:
        """Takes ownership of a newly started worker."""
        self.number = number
        self.process = process
        self.channel = channel
        self.open_passes: set[int] = set()
        self._tasks: dict[tuple[int, int], _Task] = {}  # by pass and begin
        self._streams: set[int] = set()  # numbers of the open passes over streams that it is reading
        self._ready = False
        self._since = monotonic()  # start of its work, or of its current task

    @property
    def load(self) -> int:
        """The number of its tasks."""
        return len(self._tasks)

    @property
    def descriptors(self) -> list[int]:
        """Descriptors that become readable when it sends a message or ends."""
        return [number for number in (self.channel.socket.fileno(), self.process.sentinel) if number >= 0]

    @property
    def busy_since(self) -> float:
        """Start of its current task on the monotonic clock; infinity without a task, or while it starts."""
        return self._since if self._tasks and self._ready else inf

    def be_ready(self) -> None:
        """Records that it has started."""
        self._ready = True
        self._since = monotonic()

    def due(self, timeout: float) -> float:
        """Returns the deadline of its current task for a time limit of `timeout` seconds per datapoint."""
        tasks = list(self._tasks.values())  # other threads may add tasks
        return self.busy_since + timeout * (1 + tasks[0].made_before if tasks else 1)

    def begin(
        self, number: int, begin: int, end: int, spec: PassSpec, inputs: list[Any] | None = None
    ) -> None:
        """Records a new task: a range of pass `number`."""
        first = not spec.addressable and number not in self._streams
        if first:
            self._streams = {number, *(self._streams & self.open_passes)}
        self._note(_Task(begin, end, spec.epoch, monotonic(), number, inputs, begin if first else 0))

    def finish(self, number: int, begin: int, going_on: int | None) -> None:
        """Records the result of a task; the worker continues from `going_on` on, if set."""
        self._ready = True
        self._since = monotonic()
        task = self._tasks.pop((number, begin))
        if going_on is not None:
            self._note(task._replace(begin=going_on, since=self._since, made_before=0))

    def abandon(self) -> list[_Task]:
        """Ends it at once, a thread as soon as possible; returns its tasks, the current one first."""
        self.process.kill()
        self.channel.hang_up()
        self.channel.close()
        self.process.close()
        return list(self._tasks.values())

    def too_slow(self, task: _Task, seconds: float | None) -> DatapointTimeoutError:
        """Returns the error that names the slow datapoint."""
        end = "is still running" if isinstance(self.process, WorkerThread) else "was killed"
        each = f" for each of the {task.made_before + 1} up to and including it" if task.made_before else ""
        return DatapointTimeoutError(
            f"{task} took more than timeout={seconds:g} seconds{each}; worker {self.number} ({self.process}) "
            f'{end}. Set a longer timeout, or skip such datapoints with on_error="skip"'
        )

    def doing(self) -> str:
        """Describes its oldest task, for a warning; empty if it has none."""
        if not self._tasks:
            return ""
        task = self._oldest()
        return (
            f"worker {self.number} ({self.process}) has been at {task} for {monotonic() - task.since:.0f} s"
        )

    def died(self) -> WorkerDiedError:
        """Makes sure that it has ended, and returns the error that describes its end."""
        self.process.ended(1.0)
        self.process.kill()
        doing = f", while making {self._oldest()}" if self._tasks else ""
        return WorkerDiedError(f"worker {self.number} ({self.process}) {self.process.how_it_ended()}{doing}")

    def _note(self, task: _Task) -> None:
        if not self._tasks:
            self._since = task.since
        self._tasks[task.number, task.begin] = task

    def _oldest(self) -> _Task:
        return min(self._tasks.values(), key=lambda task: task.since)


def start_worker(
    options: WorkerOptions,
    info: WorkerInfo,
    handler: TaskHandler | WorkerService,
    payload: WorkerPayload | None,
    others: Sequence[WorkerHandle],
    ordinal: int,
) -> WorkerHandle:
    """Starts a worker.

    Args:
        options: the options of the workers.
        info: number of the worker, and of all workers.
        handler: runs its tasks.
        payload: the handler for a new interpreter; `None` for other start methods.
        others: the running workers; a fork must close their connections.
        ordinal: number of workers of the pool started before it.
    """
    if options.start_method == "thread" and isinstance(handler, TaskHandler):
        return _thread(options, info, handler)
    ours, theirs = socket.socketpair()
    try:
        if payload is not None:
            process = spawn(theirs, payload.descriptor, info, ordinal)
        else:
            foreign = [ours.fileno(), *(other.channel.socket.fileno() for other in others)]
            foreign += [file for other in others for file in getattr(other.process, "lifeline", ())]
            start = WorkerStart(info, options.worker_init_fn, handler, ordinal)
            process = fork(foreign, lambda parent, alive: main_forked(theirs, parent, alive, start))
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
    lend = options.prefetch_bytes // info.num_workers
    fresh = options.start_method == "spawn"
    return WorkerHandle(info.number, process, Channel(ours, lend, patient=False, by_value=fresh))


def _thread(options: WorkerOptions, info: WorkerInfo, handler: TaskHandler) -> WorkerHandle:
    def live(end: ThreadChannel) -> None:
        set_thread_info(info)
        try:
            if options.worker_init_fn is not None:
                options.worker_init_fn(info.number)
        except Exception as error:
            end.send(pack_error(error))
            return
        end.send(None)
        # Threads share the flow or function, but not the position in it.
        WorkerLoop(end, copy.copy(handler).in_thread()).run()

    ours, theirs = connected_channels()
    return WorkerHandle(info.number, WorkerThread(info, theirs, live), ours)


LONGEST_WAIT = 1e5  # seconds; the system does not accept infinity, and waiting again is free
_IN, _OUT = getattr(select, "POLLIN", 1), getattr(select, "POLLOUT", 4)


@final
class WorkerPoll:
    """Waits until a worker has sent a message, has room for pending data, or has ended.

    The socket that wakes the waiting thread lives as long as this object, which that thread holds: so the
    number of its descriptor is not reused for another file meanwhile.

    Raises:
        OSError: this process is out of file descriptors.
    """

    def __init__(self) -> None:
        """Starts without workers."""
        self._awake, self._bell = socket.socketpair()
        self._awake.setblocking(False)
        self._bell.setblocking(False)
        self._poll: Any = select.poll() if hasattr(select, "poll") else _Select()
        self._poll.register(self._awake.fileno(), _IN)
        self._numbers: dict[int, int] = {}
        self._sending: set[int] = set()

    def watch(self, worker: WorkerHandle) -> None:
        """Watches a worker from the next `wait` on."""
        for descriptor in worker.descriptors:
            self._poll.register(descriptor, _IN)
            self._numbers[descriptor] = worker.number

    def forget(self, worker: WorkerHandle) -> None:
        """Stops watching a worker, before its descriptors are closed."""
        for descriptor in worker.descriptors:
            self._poll.unregister(descriptor)
            del self._numbers[descriptor]
            self._sending.discard(descriptor)

    def watch_sends(self, workers: Sequence[WorkerHandle]) -> None:
        """Also waits, from now on, for room for pending data."""
        for worker in workers:
            descriptor = worker.channel.socket.fileno()
            if worker.channel.pending != (descriptor in self._sending):
                self._sending ^= {descriptor}
                self._poll.modify(descriptor, _IN | _OUT if worker.channel.pending else _IN)

    def wait(self, seconds: float) -> list[int] | None:
        """Returns the numbers of the workers with events; `None` after a timeout.

        The list is empty if `wake` was called.
        """
        events = self._poll.poll(min(max(seconds, 0.0), LONGEST_WAIT) * 1000)
        if not events:
            return None
        with contextlib.suppress(BlockingIOError):
            self._awake.recv(4096)
        found = {self._numbers.get(descriptor) for descriptor, _ in events}
        return sorted(number for number in found if number is not None)

    def wake(self) -> None:
        """Makes the waiting thread, or the next one, return at once."""
        with contextlib.suppress(BlockingIOError):
            self._bell.send(b"!")

    def __del__(self) -> None:
        """Closes the sockets."""
        if hasattr(self, "_bell"):
            self._awake.close()
            self._bell.close()


class _Select:
    """Replaces `select.poll` on Windows, which has `select.select` alone."""

    def __init__(self) -> None:
        self._watched: dict[int, int] = {}

    def register(self, descriptor: int, events: int) -> None:
        self._watched[descriptor] = events

    modify = register

    def unregister(self, descriptor: int) -> None:
        del self._watched[descriptor]

    def poll(self, milliseconds: float) -> list[tuple[int, int]]:
        reads = list(self._watched)
        writes = [descriptor for descriptor, events in self._watched.items() if events & _OUT]
        readable, writable, _ = select.select(reads, writes, [], milliseconds / 1000)
        return [(descriptor, _IN) for descriptor in {*readable, *writable}]
