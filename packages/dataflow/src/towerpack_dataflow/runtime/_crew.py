"""The workers of one runner, seen from the parent: who gets which stretch, and what came back."""

from __future__ import annotations

import contextlib
import copy
import logging
import os
import select
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterator
from itertools import count, islice
from time import monotonic
from typing import Any, NamedTuple
from weakref import WeakMethod

from .._errors import WorkerDiedError
from . import _failures
from ._dispatch import Dispatcher
from ._info import WorkerInfo
from ._process import Process, end_all, fork, interrupts_blocked, spawn
from ._sending import Package
from ._threads import Handed, Thread, ThreadEnd, connect
from ._wire import Channel, Delivery, PeerGoneError
from ._work import Answer, Marks, Spec, Work, copied, marks_for

_logger = logging.getLogger("towerpack_dataflow")

_QUEUED = 0.016  # seconds of work that may wait at a worker while the consumer is busy elsewhere
_FEWEST, _MOST = 2, 8  # stretches at a worker: it must not wait for us, and its socket must not fill up


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


class Chunk(NamedTuple):
    """An answer, and the datapoints in it, not unpacked yet."""

    answer: Answer
    delivery: Delivery | Handed

    def open(self, read_only: bool) -> list[Any]:
        """The datapoints; views of shared memory may be asked to be read-only."""
        datapoints: list[Any] = self.delivery.open(read_only) if self.delivery.size else []
        return datapoints


class Pass:
    """One pass as the crew knows it.

    Args:
        spec: which one.
        dispatcher: what has been handed out.
        source: where the inputs come from that travel with the stretches, if any do; from the datapoint on
            that the dispatcher begins with.
        source_marks: those of the flow that `source` iterates over, as they change.
        follower: makes the pass after this one, to be prefetched when this one is all handed out.
        pinned: the only worker that may have its stretches; else any may, or one if it is a stream.
    """

    def __init__(
        self,
        spec: Spec,
        dispatcher: Dispatcher[Chunk],
        source: Iterator[Any] | None = None,
        source_marks: Marks | None = None,
        follower: WeakMethod[Callable[[Pass], Pass]] | None = None,
        pinned: int | None = None,
    ) -> None:
        """Nothing is asked for yet."""
        self.spec = spec
        self.dispatcher = dispatcher
        self.source = source
        self.source_at = dispatcher.due
        self.source_marks = source_marks
        self.marks_before: dict[int, Marks] = {}
        self.follower = follower
        self.pinned = pinned
        self.number = -1
        self.next: Pass | None = None
        self.final_marks: Marks | None = None
        self.source_error: Exception | None = None


class _Member:
    """One worker."""

    def __init__(self, number: int, process: Process | Thread, channel: Channel | ThreadEnd) -> None:
        self.number = number
        self.process = process
        self.channel = channel
        self.tasks: dict[tuple[int, int], tuple[int, float]] = {}  # pass, begin: end, since when
        self.knows: set[int] = set()


class Crew:
    """Starts workers, talks with them, and ends them. Several passes may run at a time.

    There is no thread here: everything happens while a consumer waits for its next datapoint. Workers go on
    in the meantime with what they were given.

    Args:
        options: see there.
    """

    def __init__(self, options: Options) -> None:
        """Starts nothing."""
        self._options = options
        self._members: list[_Member] = []
        self._passes: dict[int, Pass] = {}
        self._numbers = count()
        self._left: deque[Pass] = deque()
        self._ahead: Pass | None = None
        self._lock = threading.RLock()
        self._owner = os.getpid()
        self._poll: Any = None
        self._package: Package | None = None

    @property
    def running(self) -> bool:
        """Whether there are workers of this very process."""
        return bool(self._members) and self._owner == os.getpid()

    def start(self, work: Work) -> None:
        """Starts the workers, which get `work`.

        Raises:
            SendError: if it cannot be sent.
            OSError: if the system has no room for more processes or files.
        """
        for member in self._members:  # of the process that this one is a fork of; these are only copies
            member.channel.close()
            member.process.close()
        self._forget()
        self._owner = os.getpid()
        self._poll = select.poll()
        options = self._options
        init = options.worker_init_fn
        contents = {**work.contents(), "worker_init_fn": init}
        package = Package((init, work), contents) if options.start_method == "spawn" else None
        self._package = package
        try:
            for number in range(options.num_workers):
                self._members.append(self._started(number, work, package))
        except BaseException as error:
            self.close()
            if isinstance(error, OSError):
                raise OSError(
                    error.errno,
                    f"cannot start worker {len(self._members)} of {options.num_workers}: {error.strerror}",
                ) from error
            raise

    def close(self) -> None:
        """Ends all workers; views that consumers hold stay valid."""
        if self._owner != os.getpid():  # a forked copy of the parent has no say in this
            return
        with self._lock, interrupts_blocked():
            members, self._members = self._members, []
            for member in members:
                member.channel.close()
            end_all([member.process for member in members])
            if members and self._package is not None:
                self._package.close()
            self._forget()

    def chunks(self, this: Pass) -> Iterator[Chunk]:
        """What comes of a pass, in the order its dispatcher keeps.

        Raises:
            WorkerDiedError: if a worker was killed.
        """
        this = self._enter(this)
        try:
            while True:
                chunk = this.dispatcher.take()
                if chunk is not None:
                    yield chunk
                elif this.dispatcher.finished:
                    break
                else:
                    self._work_on(this)
            if this.source_error is not None:
                raise this.source_error
        finally:
            # Possibly called by the garbage collector in the middle of anything: the rest is done later.
            this.dispatcher.clear()
            self._left.append(this)

    def _enter(self, this: Pass) -> Pass:
        """Registers a pass, or finds that it has been begun already."""
        with self._lock:
            ahead, self._ahead = self._ahead, None
            if ahead is not None and ahead.number in self._passes:
                if ahead.spec.same_pass(this.spec) and this.dispatcher.due == 0:
                    return ahead
                self._left.append(ahead)
            self._register(this)
            return this

    def _register(self, this: Pass) -> None:
        this.number = next(self._numbers)
        self._passes[this.number] = this
        if this.pinned is None and not this.spec.addressable:
            this.pinned = min(self._members, key=lambda member: len(member.tasks)).number

    def _work_on(self, this: Pass) -> None:
        """Hands out what there is room for, then waits until something has come back."""
        with self._lock:
            if this.number not in self._passes or not self.running:
                raise WorkerDiedError("the workers of this pass were ended while it was being read")
            try:
                self._dismiss()
                self._hand_out(this)
                if not (this.dispatcher.ready or this.dispatcher.finished):
                    self._wait(this)
            except BaseException:  # Ctrl-C may have come anywhere: nothing that was under way can be trusted
                self.close()
                raise

    def _dismiss(self) -> None:
        while self._left:
            this = self._left.popleft()
            if self._passes.pop(this.number, None) is None:
                continue
            if this.next is not None and self._ahead is not this.next:
                this.next = None
            for member in self._members:
                if this.number in member.knows:
                    member.knows.remove(this.number)
                    self._send(member, ("close", this.number))

    def _hand_out(self, this: Pass) -> None:
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

    def _hand_out_of(self, this: Pass, budget: int) -> None:
        dispatcher = this.dispatcher
        while True:
            pace = dispatcher.pace
            depth = int(min(max(_QUEUED / max(pace.seconds * pace.count, 1e-9), _FEWEST), _MOST))
            member = self._free_member(this, depth)
            if member is None:
                return
            stretch = dispatcher.hand_out(budget)
            if stretch is None:
                return
            self._ask(member, this, *stretch)

    def _free_member(self, this: Pass, depth: int) -> _Member | None:
        members = self._members if this.pinned is None else [self._members[this.pinned]]
        member = min(members, key=lambda member: len(member.tasks))
        return member if len(member.tasks) < depth else None

    def _ask(self, member: _Member, this: Pass, begin: int, end: int) -> None:
        inputs = None
        if this.source is not None:
            inputs = self._inputs(this, begin, end)
            if not inputs:
                this.dispatcher.answer(begin, begin, Chunk(Answer(this.number, begin, begin), _NO_DELIVERY))
                return
            end = begin + len(inputs)
        if this.number not in member.knows:
            member.knows.add(this.number)
            self._send(member, ("open", this.number, tuple(this.spec)))
        member.tasks[this.number, begin] = (end, monotonic())
        self._send(member, ("task", this.number, begin, end), inputs)

    def _inputs(self, this: Pass, begin: int, end: int) -> list[Any]:
        inputs: list[Any] = []
        before = copied(this.source_marks or {})
        assert this.source is not None
        skipped = begin - this.source_at
        try:
            for datapoint in islice(this.source, skipped, skipped + end - begin):
                inputs.append(datapoint)
        except Exception as error:
            this.source_error = error
        this.source_at = begin + len(inputs)
        if len(inputs) < end - begin:
            this.dispatcher.end_at(begin + len(inputs))
        if this.source_marks:
            this.marks_before[begin] = marks_for(before, this.source_marks)
        return inputs

    def _send(self, member: _Member, head: Any, value: Any = None) -> None:
        try:
            member.channel.send(head, value)
        except PeerGoneError:
            # What it has sent before comes first: perhaps it says why it has gone.
            self._receive(member)

    def _wait(self, this: Pass) -> None:
        for member in self._members:
            with contextlib.suppress(PeerGoneError):  # which the poll will tell
                member.channel.give_back()
        events = self._poll.poll(self._options.stall_warning * 1000)
        if not events:
            self._warn(this)
        for number in {self._numbers_by_descriptor[descriptor] for descriptor, _ in events}:
            self._receive(self._members[number])

    def _receive(self, member: _Member) -> None:
        """Everything that this worker has sent."""
        try:
            while (message := member.channel.receive(wait=False)) is not None:
                head, delivery = message
                if isinstance(head, _failures.Failure):
                    raise _failures.unpack(head)
                self._note(member, Answer(*head), delivery)
        except PeerGoneError:
            raise self._died(member) from None

    def _note(self, member: _Member, answer: Answer, delivery: Delivery | Handed) -> None:
        end, _ = member.tasks.pop((answer.number, answer.begin))
        if answer.going_on:
            member.tasks[answer.number, answer.end] = (end, monotonic())
        for level, text in answer.logs:
            if text not in self._said:  # several workers may have noticed the same
                self._said.add(text)
                _logger.log(level, "%s", text)
        this = self._passes.get(answer.number)
        if this is None:
            return
        if this.marks_before:
            answer = answer._replace(marks=this.marks_before.pop(answer.begin, None))
        if answer.ended or answer.surprise or answer.failure is not None:
            this.dispatcher.end_at(answer.end)
        if answer.ended:
            this.final_marks = answer.final_marks
        chunk = Chunk(answer, delivery)
        this.dispatcher.answer(
            answer.begin, answer.end, chunk, delivery.size, answer.seconds, answer.going_on
        )

    def _died(self, member: _Member) -> WorkerDiedError:
        member.process.ended(1.0)
        member.process.kill()
        doing = "" if not member.tasks else f", while it was to make {self._described(member)}"
        return WorkerDiedError(
            f"worker {member.number} ({member.process}) {member.process.how_it_ended()}{doing}"
        )

    def _described(self, member: _Member) -> str:
        """What a worker is at: the oldest of its tasks."""
        (number, begin), (end, _) = min(member.tasks.items(), key=lambda task: task[1][1])
        this = self._passes.get(number)
        epoch = f" of epoch {this.spec.epoch}" if this is not None else ""
        what = f"datapoint {begin}" if end == begin + 1 else f"datapoints {begin} to {end - 1}"
        return what + epoch

    def _warn(self, this: Pass) -> None:
        busy = [
            f"worker {member.number} ({member.process}) has been at {self._described(member)} "
            f"for {monotonic() - min(since for _, since in member.tasks.values()):.0f} s"
            for member in self._members
            if member.tasks
        ]
        _logger.warning(
            "nothing came for %.0f s; the consumer waits for datapoint %d of epoch %d, and %s",
            self._options.stall_warning,
            this.dispatcher.due,
            this.spec.epoch,
            "; ".join(busy) or "no worker was given anything to do",
        )

    def _started(self, number: int, work: Work, package: Package | None) -> _Member:
        if self._options.start_method == "thread":
            member = self._started_thread(number, work)
        else:
            member = self._started_process(number, work, package)
        for descriptor in (member.channel.socket.fileno(), member.process.sentinel):
            if descriptor >= 0:
                self._poll.register(descriptor, select.POLLIN)
                self._numbers_by_descriptor[descriptor] = number
        return member

    def _started_process(self, number: int, work: Work, package: Package | None) -> _Member:
        ours, theirs = socket.socketpair()
        try:
            if package is None:
                process = self._forked(theirs, ours, number, work)
            else:
                process = spawn(theirs, package.descriptor, package.sizes, number, self._options.num_workers)
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        channel = Channel(ours, self._options.prefetch_bytes // self._options.num_workers)
        return _Member(number, process, channel)

    def _forked(self, theirs: socket.socket, ours: socket.socket, number: int, work: Work) -> Process:
        from ._worker import Start, main_forked

        start = Start(WorkerInfo(number, self._options.num_workers), self._options.worker_init_fn, work)
        foreign = [ours, *(member.channel.socket for member in self._members)]
        return fork(theirs, foreign, lambda parent, guarded: main_forked(theirs, parent, guarded, start))

    def _started_thread(self, number: int, work: Work) -> _Member:
        from ._worker import Loop

        ours, theirs = connect()
        info = WorkerInfo(number, self._options.num_workers)
        # Threads share what the work is about, but not where they are in it.
        thread = Thread(info, theirs, lambda end: Loop(end, copy.copy(work).in_thread()).run())
        return _Member(number, thread, ours)

    def _forget(self) -> None:
        self._members = []
        self._passes = {}
        self._left = deque()
        self._ahead = None
        self._said: set[str] = set()
        self._numbers_by_descriptor: dict[int, int] = {}
        self._package = None


class _NoDelivery:
    """Of an answer without datapoints that no worker has given."""

    size = 0


_NO_DELIVERY: Any = _NoDelivery()
