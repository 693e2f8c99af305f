"""The workers of one runner, seen from the parent: who gets which stretch, and what came back."""

from __future__ import annotations

import contextlib
import logging
import os
import select
import threading
from collections import deque
from collections.abc import Iterator
from itertools import count
from typing import Any

from ..._errors import WorkerDiedError
from ..transport import _remote_errors as _failures
from ..transport._channel import Delivery, PeerGoneError
from ..transport._flow_pickle import Package
from ..worker._task_handler import Work
from ..worker._task_messages import Answer
from ..worker._worker_process import end_all, interrupts_blocked
from ..worker._worker_thread import Handed
from ._active_pass import Chunk, Pass
from ._worker_handle import Member, Options, start

_logger = logging.getLogger("towerpack_dataflow")

_QUEUED = 0.016  # seconds of work that may wait at a worker while the consumer is busy elsewhere
_MUCH, _LARGE = 2**20, 2**22  # bytes worth a message of their own: to a worker that may be idle, or busy
_FEWEST, _MOST = 2, 8  # stretches at a worker: it must not wait for us, and its socket must not fill up


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
        self._members: list[Member] = []
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
                self._members.append(start(options, number, work, package, self._members))
                self._watch(self._members[-1])
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
                    self._give_back(_LARGE)
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
            this.pinned = min(self._members, key=lambda member: member.load).number

    def _work_on(self, this: Pass) -> None:
        """Hands out what there is room for, then waits until something has come back."""
        with self._lock:
            if this.number not in self._passes or not self.running:
                raise WorkerDiedError("the workers of this pass were ended while it was being read")
            with self._talking():
                self._dismiss()
                self._hand_out(this)
                if not (this.dispatcher.ready or this.dispatcher.finished):
                    self._give_back(_MUCH)
                    self._wait(this)

    @contextlib.contextmanager
    def _talking(self) -> Iterator[None]:
        """One thread at a time; what is interrupted in the middle ends the crew."""
        with self._lock:
            try:
                yield
            except BaseException:  # Ctrl-C may have come anywhere: nothing that was under way can be trusted
                self.close()
                raise

    def _give_back(self, least: int) -> None:
        """What the consumer has let go of goes home before the next message, if it is so many bytes."""
        for member in self._members:
            if member.channel.owed >= least and self.running:
                with self._talking(), contextlib.suppress(PeerGoneError):  # which the poll will tell
                    member.channel.give_back()

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

    def _free_member(self, this: Pass, depth: int) -> Member | None:
        members = self._members if this.pinned is None else [self._members[this.pinned]]
        member = min(members, key=lambda member: member.load)
        return member if member.load < depth else None

    def _ask(self, member: Member, this: Pass, begin: int, end: int) -> None:
        inputs = None
        if this.source is not None:
            inputs = this.inputs(begin, end)
            if not inputs:
                this.answer(Answer(this.number, begin, begin), None)
                return
            end = begin + len(inputs)
        if this.number not in member.knows:
            member.knows.add(this.number)
            self._send(member, ("open", this.number, tuple(this.spec)))
        member.begin(this.number, begin, end, this.spec.epoch)
        self._send(member, ("task", this.number, begin, end), inputs)

    def _send(self, member: Member, head: Any, value: Any = None) -> None:
        try:
            member.channel.send(head, value)
        except PeerGoneError:
            # What it has sent before comes first: perhaps it says why it has gone.
            self._receive(member)

    def _wait(self, this: Pass) -> None:
        events = self._poll.poll(self._options.stall_warning * 1000)
        if not events:
            self._warn(this)
        for number in {self._numbers_by_descriptor[descriptor] for descriptor, _ in events}:
            self._receive(self._members[number])

    def _receive(self, member: Member) -> None:
        """Everything that this worker has sent."""
        try:
            while (message := member.channel.receive(wait=False)) is not None:
                head, delivery = message
                if isinstance(head, _failures.Failure):
                    raise _failures.unpack(head)
                self._note(member, Answer(*head), delivery)
        except PeerGoneError:
            raise member.died() from None

    def _note(self, member: Member, answer: Answer, delivery: Delivery | Handed) -> None:
        member.finish(answer.number, answer.begin, answer.end if answer.going_on else None)
        for level, text in answer.logs:
            if text not in self._said:  # several workers may have noticed the same
                self._said.add(text)
                _logger.log(level, "%s", text)
        this = self._passes.get(answer.number)
        if this is not None:
            this.answer(answer, delivery)

    def _warn(self, this: Pass) -> None:
        busy = [doing for member in self._members if (doing := member.doing())]
        _logger.warning(
            "nothing came for %.0f s; the consumer waits for datapoint %d of epoch %d, and %s",
            self._options.stall_warning,
            this.dispatcher.due,
            this.spec.epoch,
            "; ".join(busy) or "no worker was given anything to do",
        )

    def _watch(self, member: Member) -> None:
        for descriptor in member.descriptors:
            self._poll.register(descriptor, select.POLLIN)
            self._numbers_by_descriptor[descriptor] = member.number

    def _forget(self) -> None:
        self._members = []
        self._passes = {}
        self._left = deque()
        self._ahead = None
        self._said: set[str] = set()
        self._numbers_by_descriptor: dict[int, int] = {}
        self._package = None
