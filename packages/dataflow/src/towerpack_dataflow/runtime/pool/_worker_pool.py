"""The workers of one runner on the parent's side: distribution of ranges and delivery of results."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import count
from time import monotonic
from typing import Any, final

from ..._errors import WorkerDiedError
from ..transport._channel import PeerGoneError, ReceivedMessage
from ..transport._collected_datapoints import from_table
from ..transport._remote_errors import Failure, pack_error, unpack_error
from ..worker._task_handler import TaskHandler, TaskResult
from ..worker._worker_options import WorkerOptions
from ..worker._worker_process import interrupts_blocked
from ..worker._worker_thread import InProcessMessage
from ._active_pass import ActivePass, Chunk
from ._worker_group import WorkerGroup, is_stuck
from ._worker_handle import LONGEST_WAIT, WorkerHandle, WorkerPoll

__all__ = ["WorkerPool"]

_log = logging.getLogger("towerpack_dataflow")

_QUEUED = 0.016  # seconds of work that may queue at a worker while the consumer is busy
_MUCH, _LARGE = 2**20, 2**22  # bytes that justify a separate message: to a worker that may be idle, or busy
_FEWEST, _MOST = 2, 8  # tasks of a worker: it must not wait for the parent, and its socket must not fill up


@final
class WorkerPool:
    """Starts workers, assigns tasks to them, and ends them. Several passes may run at the same time.

    It has no thread: all work happens while a consumer waits for its next datapoint. Meanwhile workers
    continue with their tasks. If there are several consumers, one of them waits for the workers and the
    others for that one; none holds the lock while it waits, or while it reads the inputs of its pass.

    Args:
        num_workers: number of workers.
        options: the options of the workers.
    """

    def __init__(self, num_workers: int, options: WorkerOptions) -> None:
        """Starts nothing."""
        self._options = options
        self._group = WorkerGroup(num_workers, options)
        self._lock = threading.RLock()
        self._forget()

    def _forget(self) -> None:
        self._arrived = threading.Condition(self._lock)
        self._waiting = False  # whether a thread is waiting for the workers
        self._passes: dict[int, ActivePass] = {}
        self._numbers = count()
        self._left: deque[ActivePass] = deque()
        self._ahead: ActivePass | None = None
        self._logged: set[str] = set()

    @property
    def _workers(self) -> list[WorkerHandle]:
        return self._group.workers

    @property
    def running(self) -> bool:
        """Whether workers exist and were started by this process."""
        return bool(self._workers) and self._group.is_ours

    def start(self, handler: TaskHandler) -> None:
        """Starts the workers with `handler`.

        Raises:
            SendError: the handler cannot be sent.
            OSError: the system has no room for more processes or files.
        """
        if not self._group.is_ours:  # a thread that held the lock does not exist in this fork
            self._group.forget_copies()
            self._lock = threading.RLock()
            self._forget()
        with self._lock, self._closing_if_interrupted():
            if not self.running:
                self._group.start(handler)

    def close(self) -> None:
        """Ends all workers; views held by consumers stay valid."""
        if not self._group.is_ours:  # a forked copy of the parent does not own the workers
            return
        with self._lock, interrupts_blocked():
            self._group.close()
            self._passes, self._left = {}, deque()
            self._ahead, self._logged = None, set()
            self._arrived.notify_all()

    def chunks(self, this: ActivePass) -> Iterator[Chunk]:
        """Yields the results of a pass, in the order of its dispatcher.

        Raises:
            WorkerDiedError: a worker was killed; raised after the results that arrived before.
        """
        this = self._begin(this)
        try:
            while True:
                if this.dispatcher.ready and monotonic() - this.filled > _QUEUED:
                    self._hand_out(this, read=True)  # the consumer is slow, and workers may have no task left
                with self._lock:
                    chunk = this.dispatcher.take()
                if chunk is not None:
                    yield chunk
                    del chunk
                    self._give_back(_LARGE)
                elif this.dispatcher.finished:
                    break
                else:
                    self._advance(this)
            if this.source_error is not None:
                raise this.source_error
        except Exception:  # datapoints before the place of the error are ready
            while (chunk := this.dispatcher.take()) is not None:
                yield chunk
                del chunk
            raise
        finally:
            # The garbage collector may call this at any point: the rest is done later.
            this.dispatcher.clear()
            self._left.append(this)

    def _begin(self, this: ActivePass) -> ActivePass:
        """Registers a pass, or returns the same pass if it was started ahead."""
        with self._lock:
            ahead, self._ahead = self._ahead, None
            if ahead is not None and ahead.number in self._passes:
                if ahead.spec.same_pass(this.spec) and this.dispatcher.due == 0:
                    return ahead
                self._left.append(ahead)
            self._register(this)
            return this

    def _register(self, this: ActivePass) -> None:
        if this.pinned is None and not this.spec.addressable:
            this.pinned = self._group.reader_of_stream()
        this.number = next(self._numbers)
        self._passes[this.number] = this

    def _hand_out(self, this: ActivePass, *, read: bool) -> WorkerPoll:
        """Hands out tasks while there is room; `read` looks for results first, which make room."""
        with self._lock, self._closing_if_interrupted():
            self._check(this)
            self._close_left_passes()
            poll = self._group.poll
            assert poll is not None
            if not self._waiting and (read or any(map(is_stuck, self._workers))):
                self._read(poll.wait(0.0) or ())  # results may have arrived unnoticed
        with self._closing_if_interrupted():
            self._fill_tasks(this)
        this.filled = monotonic()
        return poll

    def _advance(self, this: ActivePass) -> None:
        """Hands out tasks while there is room, then waits for a result."""
        poll = self._hand_out(this, read=False)
        with self._closing_if_interrupted():
            with self._lock:
                self._check(this)
                # Other threads may have read all results since: then nothing would end the wait.
                if not this.dispatcher.waits or (this.dispatcher.idle and self._has_room(this)):
                    return
                self._give_back(_MUCH)
                if self._waiting:
                    poll.wake()  # that thread then also waits for later results
                    if not self._arrived.wait(min(self._options.stall_warning, LONGEST_WAIT)):
                        self._group.warn(this.dispatcher.due, this.spec.epoch)
                    return
                self._waiting = True
                poll.watch_sends(self._workers)
            self._wait(this, poll)

    def _check(self, this: ActivePass) -> None:
        if this.number not in self._passes or not self.running:
            raise WorkerDiedError("the workers of this pass were ended while it was being read")

    @contextlib.contextmanager
    def _closing_if_interrupted(self) -> Iterator[None]:
        try:
            yield
        except BaseException:  # Ctrl-C may come at any point: the state of running tasks is unreliable
            self.close()
            raise

    def _give_back(self, least: int) -> None:
        """Returns slots released early by the consumer, if they have `least` bytes."""
        for worker in self._workers:
            if worker.channel.owed >= least and self.running:
                # The poll will report an ended worker.
                with self._lock, self._closing_if_interrupted(), contextlib.suppress(PeerGoneError):
                    worker.channel.give_back()

    def _close_left_passes(self) -> None:
        while self._left:
            this = self._left.popleft()
            if self._passes.pop(this.number, None) is None:
                continue
            if this.next is not None and self._ahead is not this.next:
                this.next = None
            for worker in self._workers:
                if this.number in worker.open_passes:
                    worker.open_passes.remove(this.number)
                    with self._hearing(worker):
                        worker.channel.send(("close", this.number))

    def _fill_tasks(self, this: ActivePass) -> None:
        self._fill_tasks_of(this, self._options.prefetch_bytes, 0)
        if not this.dispatcher.exhausted or this.follower is None:
            return
        with self._lock:
            if this.next is None:
                make = this.follower()
                if make is None:
                    return
                this.next = self._ahead = make(this)
                this.next.dispatcher.task_size = this.dispatcher.task_size
                self._register(this.next)
            ahead = this.next if self._ahead is this.next else None
            left = self._options.prefetch_bytes - int(this.dispatcher.held_bytes())
        if ahead is not None:
            self._fill_tasks_of(ahead, left, this.dispatcher.under_way)

    def _fill_tasks_of(self, this: ActivePass, budget: int, others: int) -> None:
        inputs = None
        while True:
            with self._lock:
                index_range = None if not self._has_room(this) else this.dispatcher.next_range(budget, others)
            if index_range is None:
                return
            begin, end = index_range
            if this.source is not None:
                # Not under the lock: the flow read here may be slow.
                end, inputs = this.inputs(begin, end, self._options.start_method == "thread")
            with self._lock:
                if not self.running:
                    return
                self._assign(this, begin, end, inputs)

    def _has_room(self, this: ActivePass) -> bool:
        seconds = this.dispatcher.task_size.seconds * this.dispatcher.length
        depth = min(max(_QUEUED / max(seconds, 1e-9), _FEWEST), _MOST)
        worker = self._group.least_busy(this.pinned)
        return (
            worker is not None and worker.load < int(depth) and not (this.pinned is None and is_stuck(worker))
        )

    def _assign(self, this: ActivePass, begin: int, end: int, inputs: Any) -> None:
        if begin == end:
            this.add_result(TaskResult(this.number, begin, begin), None)
            return
        worker = self._group.least_busy(this.pinned)
        assert worker is not None
        with self._hearing(worker):
            if this.number not in worker.open_passes:
                worker.open_passes.add(this.number)
                worker.channel.send(("open", this.number, tuple(this.spec)))
            self._divide(worker, this, begin, end, inputs)

    def _divide(self, worker: WorkerHandle, this: ActivePass, begin: int, end: int, inputs: Any) -> None:
        """Sends a task; if its inputs cannot be sent together, sends each separately."""
        try:
            self._give(worker, this, begin, end, inputs)
        except PeerGoneError:
            raise
        except Exception:  # any error from pickling user objects
            if inputs is None:
                raise
            this.dispatcher.divide(begin)
            for number, datapoint in enumerate(from_table(inputs), begin):
                if not self._given(worker, this, number, datapoint):
                    return

    def _give(self, worker: WorkerHandle, this: ActivePass, begin: int, end: int, inputs: Any) -> None:
        worker.channel.send(("task", this.number, begin, end), inputs)
        worker.begin(this.number, begin, end, this.spec, inputs if self._options.timeout else None)

    def _given(self, worker: WorkerHandle, this: ActivePass, number: int, datapoint: Any) -> bool:
        """Sends one input; if that fails, replaces it according to `on_error`."""
        try:
            self._give(worker, this, number, number + 1, [datapoint])
        except PeerGoneError:
            raise
        except Exception as error:
            return this.fail(number, pack_error(error), self._group.in_place_of_skipped())
        return True

    @contextlib.contextmanager
    def _hearing(self, worker: WorkerHandle) -> Iterator[None]:
        """Reads all messages if this worker has ended: one of them may contain the reason."""
        try:
            yield
        except PeerGoneError:
            self._read([worker.number, *range(len(self._workers))])

    def _wait(self, this: ActivePass, poll: WorkerPoll) -> None:
        """Waits for events without holding the lock, then handles them."""
        stall = self._options.stall_warning
        begin = monotonic()
        news: list[int] | None = []
        try:
            news = this.awaited(poll.wait, min(self._group.seconds_left(), stall))
        finally:
            with self._lock:
                self._waiting = False
                self._arrived.notify_all()
                if self._group.poll is poll:
                    self._read(news or ())
                    late = self._group.late()
                    for worker in late:
                        self._give_up(worker, poll)
                    if news is None and not late and monotonic() - begin >= stall:
                        self._group.warn(this.dispatcher.due, this.spec.epoch)

    def _receive(self, worker: WorkerHandle) -> None:
        """Reads all messages of this worker."""
        try:
            with contextlib.suppress(PeerGoneError):  # earlier messages are read below
                worker.channel.flush()
            while (received := worker.channel.receive(wait=False)) is not None:
                head, message = received
                if head is None:
                    worker.be_ready()
                    continue
                if isinstance(head, Failure):
                    raise unpack_error(head)
                self._accept(worker, TaskResult(*head), message)
        except PeerGoneError:
            raise worker.died() from None

    def _accept(
        self, worker: WorkerHandle, result: TaskResult, message: ReceivedMessage | InProcessMessage
    ) -> None:
        worker.finish(result.number, result.begin, result.end if result.going_on else None)
        for level, text in result.logs:
            if text not in self._logged:  # several workers may report the same
                self._logged.add(text)
                _log.log(level, "%s", text)
        this = self._passes.get(result.number)
        if this is not None:
            this.add_result(result, message)

    def _read(self, news: Iterable[int]) -> None:
        """Reads the messages of these workers, then raises the error of the first that has ended."""
        death = None
        for number in news:
            try:
                self._receive(self._workers[number])
            except WorkerDiedError as error:
                death = death or error
        if death is not None:
            raise death

    def _give_up(self, worker: WorkerHandle, poll: WorkerPoll) -> None:
        """Replaces a worker that takes too long."""
        poll.forget(worker)
        tasks = worker.abandon()
        self._group.replace(worker)
        error = pack_error(worker.too_slow(tasks[0], self._options.timeout))
        for place, task in enumerate(tasks):
            this = self._passes.get(task.number)
            if this is None:
                continue
            if place == 0 and not this.may_retry(task.begin, self._options.on_error):
                this.fail(task.begin, error, self._group.in_place_of_skipped())
            else:
                this.take_back(task.begin, task.inputs)
