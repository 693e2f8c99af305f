"""The workers of one runner on the parent's side: which worker gets which stretch, and where results go."""

from __future__ import annotations

import contextlib
import logging
import os
import select
import threading
from collections import deque
from collections.abc import Iterator
from itertools import count
from typing import Any, final

from ..._errors import WorkerDiedError
from ..transport import Failure, PeerGoneError, ReceivedMessage, WorkerPayload, unpack_error
from ..worker._task_handler import TaskHandler
from ..worker._task_messages import TaskResult
from ..worker._worker_process import end_all, interrupts_blocked
from ..worker._worker_thread import InProcessMessage
from ._active_pass import ActivePass, Chunk
from ._worker_handle import PoolOptions, WorkerHandle, start_worker

__all__ = ["WorkerPool"]

_log = logging.getLogger("towerpack_dataflow")

_QUEUED = 0.016  # seconds of work that may wait at a worker while the consumer is busy elsewhere
_MUCH, _LARGE = 2**20, 2**22  # bytes worth a message of their own: to a worker that may be idle, or busy
_FEWEST, _MOST = 2, 8  # tasks of a worker: it must not wait for the parent, and its socket must not fill up


@final
class WorkerPool:
    """Starts workers, gives them tasks, and ends them. Several passes may run at a time.

    There is no thread here: everything happens while a consumer waits for its next datapoint. Workers go on
    in the meantime with the tasks they have.

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
        self._owner = os.getpid()
        self._poll: Any = None
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
        for worker in self._workers:  # those of the process that this one is a fork of: only copies
            worker.channel.close()
            worker.process.close()
        self._forget()
        self._owner = os.getpid()
        self._poll = select.poll()
        options = self._options
        init = options.worker_init_fn
        contents = {**handler.contents(), "worker_init_fn": init}
        payload = WorkerPayload((init, handler), contents) if options.start_method == "spawn" else None
        self._payload = payload
        try:
            for number in range(options.num_workers):
                self._workers.append(start_worker(options, number, handler, payload, self._workers))
                self._watch(self._workers[-1])
        except BaseException as error:
            self.close()
            if isinstance(error, OSError):
                raise OSError(
                    error.errno,
                    f"cannot start worker {len(self._workers)} of {options.num_workers}: {error.strerror}",
                ) from error
            raise

    def close(self) -> None:
        """Ends all workers; views that consumers hold stay valid."""
        if self._owner != os.getpid():  # a forked copy of the parent does not own the workers
            return
        with self._lock, interrupts_blocked():
            workers, self._workers = self._workers, []
            for worker in workers:
                worker.channel.close()
            end_all([worker.process for worker in workers])
            if workers and self._payload is not None:
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
                chunk = this.dispatcher.take()
                if chunk is not None:
                    yield chunk
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
        with self._lock:
            if this.number not in self._passes or not self.running:
                raise WorkerDiedError("the workers of this pass were ended while it was being read")
            with self._exclusively():
                self._close_left_passes()
                self._hand_out(this)
                if not (this.dispatcher.ready or this.dispatcher.finished):
                    self._give_back(_MUCH)
                    self._wait(this)

    @contextlib.contextmanager
    def _exclusively(self) -> Iterator[None]:
        """Lets one thread in at a time; an interruption in the middle ends the pool."""
        with self._lock:
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
        if this.next is None:
            make = this.follower()
            if make is None:
                return
            this.next = self._ahead = make(this)
            self._register(this.next)
        if self._ahead is this.next:
            left = self._options.prefetch_bytes - int(this.dispatcher.held_bytes())
            self._hand_out_of(this.next, left)

    def _hand_out_of(self, this: ActivePass, budget: int) -> None:
        dispatcher = this.dispatcher
        while True:
            pace = dispatcher.pace
            depth = int(min(max(_QUEUED / max(pace.seconds * pace.count, 1e-9), _FEWEST), _MOST))
            worker = self._free_worker(this, depth)
            if worker is None:
                return
            stretch = dispatcher.hand_out(budget)
            if stretch is None:
                return
            self._assign(worker, this, *stretch)

    def _free_worker(self, this: ActivePass, depth: int) -> WorkerHandle | None:
        workers = self._workers if this.pinned is None else [self._workers[this.pinned]]
        worker = min(workers, key=lambda worker: worker.load)
        return worker if worker.load < depth else None

    def _assign(self, worker: WorkerHandle, this: ActivePass, begin: int, end: int) -> None:
        inputs = None
        if this.source is not None:
            inputs = this.inputs(begin, end)
            if not inputs:
                this.add_result(TaskResult(this.number, begin, begin), None)
                return
            end = begin + len(inputs)
        if this.number not in worker.open_passes:
            worker.open_passes.add(this.number)
            self._send(worker, ("open", this.number, tuple(this.spec)))
        worker.begin(this.number, begin, end, this.spec.epoch)
        self._send(worker, ("task", this.number, begin, end), inputs)

    def _send(self, worker: WorkerHandle, head: Any, value: Any = None) -> None:
        try:
            worker.channel.send(head, value)
        except PeerGoneError:
            # Its earlier messages come first: perhaps one of them says why it has gone.
            self._receive(worker)

    def _wait(self, this: ActivePass) -> None:
        events = self._poll.poll(self._options.stall_warning * 1000)
        if not events:
            self._warn(this)
        for number in {self._numbers_by_descriptor[descriptor] for descriptor, _ in events}:
            self._receive(self._workers[number])

    def _receive(self, worker: WorkerHandle) -> None:
        """Reads all messages of this worker."""
        try:
            while (received := worker.channel.receive(wait=False)) is not None:
                head, message = received
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

    def _watch(self, worker: WorkerHandle) -> None:
        for descriptor in worker.descriptors:
            self._poll.register(descriptor, select.POLLIN)
            self._numbers_by_descriptor[descriptor] = worker.number

    def _forget(self) -> None:
        self._workers = []
        self._passes = {}
        self._left = deque()
        self._ahead = None
        self._logged: set[str] = set()
        self._numbers_by_descriptor: dict[int, int] = {}
        self._payload = None
