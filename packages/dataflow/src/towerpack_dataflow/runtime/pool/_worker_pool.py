"""The workers of one runner on the parent's side: which worker gets which stretch, and where results go."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import count
from math import inf
from time import monotonic
from typing import Any, final

from ..._errors import WorkerDiedError
from ..transport import Failure, PeerGoneError, ReceivedMessage, WorkerPayload, pack_error, unpack_error
from ..worker._task_handler import TaskHandler
from ..worker._task_messages import TaskResult
from ..worker._worker_process import end_all, interrupts_blocked
from ..worker._worker_thread import InProcessMessage
from ._active_pass import ActivePass, Chunk
from ._worker_handle import PoolOptions, WorkerHandle, start_worker
from ._worker_poll import LONGEST_WAIT, WorkerPoll

__all__ = ["WorkerPool"]

_log = logging.getLogger("towerpack_dataflow")

_QUEUED = 0.016  # seconds of work that may wait at a worker while the consumer is busy elsewhere
_MUCH, _LARGE = 2**20, 2**22  # bytes worth a message of their own: to a worker that may be idle, or busy
_LONG = 0.5  # seconds at one task, after which another one does not queue up behind it
_FEWEST, _MOST = 2, 8  # tasks of a worker: it must not wait for the parent, and its socket must not fill up


@final
class WorkerPool:
    """Starts workers, gives them tasks, and ends them. Several passes may run at a time.

    There is no thread here: everything happens while a consumer waits for its next datapoint. Workers go on
    in the meantime with the tasks they have. Of several consumers one waits for the workers, and the others
    for it; none holds the lock while it waits, nor while it reads the inputs of its pass.

    Args:
        options: see there.
    """

    def __init__(self, options: PoolOptions) -> None:
        """Starts nothing."""
        self._options = options
        self._workers: list[WorkerHandle] = []
        self._passes: dict[int, ActivePass] = {}
        self._numbers = count()
        self._left: deque[ActivePass] = deque()
        self._ahead: ActivePass | None = None
        self._lock = threading.RLock()
        self._arrived = threading.Condition(self._lock)
        self._waiting = False  # whether a thread waits for the workers
        self._owner = os.getpid()
        self._poll: WorkerPoll | None = None
        self._handler: TaskHandler | None = None
        self._payload: WorkerPayload | None = None

    @property
    def running(self) -> bool:
        """Whether there are workers, and this process has started them."""
        return bool(self._workers) and self._owner == os.getpid()

    def start(self, handler: TaskHandler) -> None:
        """Starts the workers, which get `handler`.

        Raises:
            SendError: the handler cannot be sent.
            OSError: the system has no room for more processes or files.
        """
        if self._owner != os.getpid():
            # This process is a fork: these are only copies, and a thread that had the lock is not in it.
            for worker in self._workers:
                worker.channel.close()
                worker.process.close()
            self._lock = threading.RLock()
            self._arrived = threading.Condition(self._lock)
            self._waiting = False
        with self._lock:
            if not self.running:
                self._start(handler)

    def _start(self, handler: TaskHandler) -> None:
        self._forget()
        self._owner = os.getpid()
        self._handler = handler
        options = self._options
        init = options.worker_init_fn
        number = 0
        try:
            self._poll = WorkerPoll()
            if options.start_method == "spawn":
                contents = {**handler.contents(), "worker_init_fn": init}
                self._payload = WorkerPayload((init, handler), contents)
            for number in range(options.num_workers):
                self._workers.append(start_worker(options, number, handler, self._payload, self._workers))
                self._poll.watch(self._workers[-1])
        except BaseException as error:
            self.close()
            if isinstance(error, OSError):
                raise OSError(
                    error.errno, f"cannot start worker {number} of {options.num_workers}: {error.strerror}"
                ) from error
            raise

    def close(self) -> None:
        """Ends all workers; views that consumers hold stay valid."""
        if self._owner != os.getpid():  # a forked copy of the parent does not own the workers
            return
        with self._lock, interrupts_blocked():
            workers, self._workers = self._workers, []
            if self._poll is not None:
                self._poll.wake()
            self._arrived.notify_all()
            for worker in workers:
                worker.channel.close()
            end_all([worker.process for worker in workers])
            if self._payload is not None:
                self._payload.close()
            self._forget()

    def chunks(self, this: ActivePass) -> Iterator[Chunk]:
        """Yields the results of a pass, in the order that its dispatcher keeps.

        Raises:
            WorkerDiedError: a worker was killed.
        """
        this = self._begin(this)
        try:
            while True:
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
        finally:
            # Possibly called by the garbage collector in the middle of anything: the rest is done later.
            this.dispatcher.clear()
            self._left.append(this)

    def _begin(self, this: ActivePass) -> ActivePass:
        """Registers a pass, or returns the same pass if it was begun ahead."""
        with self._lock:
            ahead, self._ahead = self._ahead, None
            if ahead is not None and ahead.number in self._passes:
                if ahead.spec.same_pass(this.spec) and this.dispatcher.due == 0:
                    return ahead
                self._left.append(ahead)
            self._register(this)
            return this

    def _register(self, this: ActivePass) -> None:
        this.number = next(self._numbers)
        self._passes[this.number] = this
        if this.pinned is None and not this.spec.addressable:
            this.pinned = min(self._workers, key=lambda worker: worker.load).number

    def _advance(self, this: ActivePass) -> None:
        """Hands out tasks while there is room, then waits until a result is there."""
        with self._exclusively():
            self._check(this)
            self._close_left_passes()
            poll = self._poll
            assert poll is not None
            if not self._waiting and any(map(_is_stuck, self._workers)):
                self._read(poll.wait(0.0) or ())  # perhaps it has only not been asked for some time
        with self._closing_if_interrupted():
            self._hand_out(this)
            with self._lock:
                self._check(this)
                if this.dispatcher.ready or this.dispatcher.finished:
                    return
                self._give_back(_MUCH)
                if self._waiting:
                    poll.wake()  # that thread waits for what is sent from now on, too
                    if not self._arrived.wait(min(self._options.stall_warning, LONGEST_WAIT)):
                        self._warn(this)
                    return
                self._waiting = True
                poll.watch_sends(self._workers)
            self._wait(this, poll)

    def _check(self, this: ActivePass) -> None:
        if this.number not in self._passes or not self.running:
            raise WorkerDiedError("the workers of this pass were ended while it was being read")

    @contextlib.contextmanager
    def _exclusively(self) -> Iterator[None]:
        """Lets one thread in at a time; an interruption in the middle ends the pool."""
        with self._lock, self._closing_if_interrupted():
            yield

    @contextlib.contextmanager
    def _closing_if_interrupted(self) -> Iterator[None]:
        try:
            yield
        except BaseException:  # Ctrl-C may come anywhere: nothing that was under way can be trusted
            self.close()
            raise

    def _give_back(self, least: int) -> None:
        """Returns slots that the consumer has let go of early, if they have `least` bytes."""
        for worker in self._workers:
            if worker.channel.owed >= least and self.running:
                with self._exclusively(), contextlib.suppress(PeerGoneError):  # the poll will report it
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
                    self._send(worker, ("close", this.number))

    def _hand_out(self, this: ActivePass) -> None:
        self._hand_out_of(this, self._options.prefetch_bytes)
        if not this.dispatcher.exhausted or this.follower is None:
            return
        with self._lock:
            if this.next is None:
                make = this.follower()
                if make is None:
                    return
                this.next = self._ahead = make(this)
                self._register(this.next)
            ahead = this.next if self._ahead is this.next else None
            left = self._options.prefetch_bytes - int(this.dispatcher.held_bytes())
        if ahead is not None:
            self._hand_out_of(ahead, left)

    def _hand_out_of(self, this: ActivePass, budget: int) -> None:
        inputs = None
        while True:
            with self._lock:
                stretch = None if self._free_worker(this) is None else this.dispatcher.hand_out(budget)
            if stretch is None:
                return
            begin, end = stretch
            if this.source is not None:
                # Not under the lock: the flow that is read here may take its time.
                inputs = this.inputs(begin, end, self._options.start_method == "thread")
            with self._lock:
                if not self.running:
                    return
                self._assign(this, begin, end, inputs)

    def _free_worker(self, this: ActivePass) -> WorkerHandle | None:
        pace = this.dispatcher.pace
        depth = int(min(max(_QUEUED / max(pace.seconds * pace.count, 1e-9), _FEWEST), _MOST))
        worker = self._least_busy(this)
        if worker is None or worker.load >= depth or (this.pinned is None and _is_stuck(worker)):
            return None
        return worker

    def _least_busy(self, this: ActivePass) -> WorkerHandle | None:
        workers = self._workers if this.pinned is None else self._workers[this.pinned : this.pinned + 1]
        return min(workers, key=lambda worker: (_is_stuck(worker), worker.load), default=None)

    def _assign(self, this: ActivePass, begin: int, end: int, inputs: list[Any] | None) -> None:
        if inputs is not None:
            if not inputs:
                this.add_result(TaskResult(this.number, begin, begin), None)
                return
            end = begin + len(inputs)
        worker = self._least_busy(this)
        assert worker is not None
        if this.number not in worker.open_passes:
            worker.open_passes.add(this.number)
            self._send(worker, ("open", this.number, tuple(this.spec)))
        try:
            self._give(worker, this, begin, end, inputs)
        except (WorkerDiedError, PeerGoneError):
            raise
        except Exception:  # whatever the pickling of a user's objects raises
            if inputs is None:
                raise
            this.dispatcher.divide(begin)
            for number, datapoint in enumerate(inputs, begin):
                if not self._given(worker, this, number, datapoint):
                    return

    def _give(
        self, worker: WorkerHandle, this: ActivePass, begin: int, end: int, inputs: list[Any] | None
    ) -> None:
        self._send(worker, ("task", this.number, begin, end), inputs)
        worker.begin(this.number, begin, end, this.spec.epoch, inputs if self._options.timeout else None)

    def _given(self, worker: WorkerHandle, this: ActivePass, number: int, datapoint: Any) -> bool:
        """Sends one input; if it cannot be sent, puts into its place what `on_error` says."""
        try:
            self._give(worker, this, number, number + 1, [datapoint])
        except (WorkerDiedError, PeerGoneError):
            raise
        except Exception as error:
            return self._fail(this, number, pack_error(error))
        return True

    def _fail(self, this: ActivePass, number: int, failure: Failure) -> bool:
        """Puts an error into the place of a datapoint, or leaves it out; returns whether the pass goes on."""
        if self._options.on_error == "skip":
            assert self._handler is not None
            skipped = ((number, failure.summary),)
            result = TaskResult(this.number, number, number + 1, skipped=skipped)
            this.add_result(result, InProcessMessage(self._handler.in_place_of_skipped()))
            return True
        this.add_result(TaskResult(this.number, number, number, failure=failure), None)
        return False

    def _send(self, worker: WorkerHandle, head: Any, value: Any = None) -> None:
        try:
            worker.channel.send(head, value)
        except PeerGoneError:
            # Its earlier messages come first: perhaps one of them says why it has gone.
            self._receive(worker)

    def _wait(self, this: ActivePass, poll: WorkerPoll) -> None:
        """Waits for news without holding the lock, then deals with the news."""
        stall = self._options.stall_warning
        begin = monotonic()
        news: list[int] | None = []
        try:
            news = poll.wait(min(self._time_left(), stall))
        finally:
            with self._lock:
                self._waiting = False
                self._arrived.notify_all()
                if self._poll is poll:
                    self._read(news or ())
                    late = [worker for worker in self._workers if self._late(worker)]
                    for worker in late:
                        self._give_up(worker)
                    if news is None and not late and monotonic() - begin >= stall:
                        self._warn(this)

    def _receive(self, worker: WorkerHandle) -> None:
        """Reads all messages of this worker."""
        try:
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
            if text not in self._logged:  # several workers may have noticed the same
                self._logged.add(text)
                _log.log(level, "%s", text)
        this = self._passes.get(result.number)
        if this is not None:
            this.add_result(result, message)

    def _warn(self, this: ActivePass) -> None:
        busy = [doing for worker in self._workers if (doing := worker.doing())]
        _log.warning(
            "nothing came for %.0f s; the consumer waits for datapoint %d of epoch %d, and %s",
            self._options.stall_warning,
            this.dispatcher.due,
            this.spec.epoch,
            "; ".join(busy) or "no worker was given anything to do",
        )

    def _read(self, news: Iterable[int]) -> None:
        for number in news:
            self._receive(self._workers[number])

    def _time_left(self) -> float:
        """Returns the seconds until a datapoint has taken too long."""
        timeout = self._options.timeout
        if timeout is None:
            return inf
        return min((worker.busy_since + timeout for worker in self._workers), default=inf) - monotonic()

    def _late(self, worker: WorkerHandle) -> bool:
        return monotonic() > worker.busy_since + (self._options.timeout or inf)

    def _give_up(self, worker: WorkerHandle) -> None:
        """Puts a new worker into the place of one that takes too long."""
        assert self._poll is not None and self._handler is not None
        self._poll.forget(worker)
        tasks = worker.abandon()
        others = [other for other in self._workers if other is not worker]
        new = start_worker(self._options, worker.number, self._handler, self._payload, others)
        self._workers[worker.number] = new
        self._poll.watch(new)
        for place, task in enumerate(tasks):
            this = self._passes.get(task.number)
            if this is None:
                continue
            first = place == 0
            if first and not this.may_retry(task.begin, self._options.on_error):
                self._fail(this, task.begin, pack_error(worker.too_slow(task, self._options.timeout)))
            else:
                this.take_back(task.begin, task.inputs)

    def _forget(self) -> None:
        self._workers = []
        self._passes = {}
        self._left = deque()
        self._ahead = None
        self._logged: set[str] = set()
        self._poll = None
        self._payload = None


def _is_stuck(worker: WorkerHandle) -> bool:
    return monotonic() - worker.busy_since > _LONG
