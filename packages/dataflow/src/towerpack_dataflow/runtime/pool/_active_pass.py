"""One pass over a flow on the parent's side: its tasks, their inputs, and their results."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from itertools import islice
from time import monotonic
from typing import Any, NamedTuple, Protocol, TypeVar, final
from weakref import WeakMethod

from ...flow._epoch import as_lists
from ...flow._resume_marks import Marks
from .._spans import process_spans
from ..transport._collected_datapoints import DatapointList, SteadyList
from ..transport._remote_errors import Failure
from ..worker._task_handler import ATTEMPTS, PassSpec, TaskHandler, TaskResult, marks_throughout
from ..worker._worker_thread import InProcessMessage
from ._dispatcher import Dispatcher

__all__ = ["ActivePass", "Chunk", "InlinePool", "Message", "Pool"]

T = TypeVar("T")


class Message(Protocol):
    """Datapoints on their way to the consumer."""

    @property
    def size(self) -> int:
        """Approximate size in bytes."""

    def open(self, read_only: bool = False) -> Any:
        """Returns a list of the datapoints, once; read-only ones may be views of shared memory."""


@final
class Chunk(NamedTuple):
    """The result of a task, and its datapoints before unpacking; `None` if no worker made them."""

    result: TaskResult
    message: Message | None

    def open(self, read_only: bool) -> list[Any]:
        """Returns the datapoints, as read-only views of shared memory if requested."""
        if self.message is None or not self.message.size:
            return []
        datapoints: list[Any] = self.message.open(read_only)
        return datapoints


@final
class ActivePass:
    """One pass.

    Args:
        spec: the values that determine its datapoints.
        dispatcher: hands out its ranges.
        source: yields the inputs sent with the ranges, if any; starts at the first datapoint of the
            dispatcher.
        source_marks: marks of the flow that `source` iterates over, which change during the pass.
        steady: whether nothing writes to datapoints of `source` after they are yielded.
        follower: makes the next pass, to prefetch once this one is handed out completely.
        pinned: the only worker for its ranges; else any worker, or one for a stream.

    Attributes:
        number: its number in messages.
        next: the next pass, if it has started.
        filled: time at which the workers last received all tasks there was room for.
        final_marks: the marks of an ended stream.
        source_error: the error raised by `source`.
    """

    def __init__(
        self,
        spec: PassSpec,
        dispatcher: Dispatcher[Chunk],
        source: Iterator[Any] | None = None,
        source_marks: Marks | None = None,
        follower: WeakMethod[Callable[[ActivePass], ActivePass]] | None = None,
        pinned: int | None = None,
        steady: bool = False,
    ) -> None:
        """Starts with nothing handed out."""
        self.spec = spec
        self.dispatcher = dispatcher
        self.source = source
        self.follower = follower
        self.pinned = pinned
        self.number = -1
        self.next: ActivePass | None = None
        self.filled = 0.0
        self.final_marks: Marks | None = None
        self.source_error: Exception | None = None
        self._steady = steady
        self._source_at = dispatcher.due
        self.source_marks: Marks = {} if source_marks is None else source_marks
        self._marks_before: dict[int, Marks] = {}
        self._again: dict[int, list[Any]] = {}
        self._attempts: dict[int, int] = {}

    def awaited(self, wait: Callable[[float], T], seconds: float) -> T:
        """Returns `wait(seconds)`, a wait for the workers; adds a span to the trace, if any."""
        begin = monotonic()
        news = wait(seconds)
        if self.spec.trace:
            spans = process_spans(self.spec.trace)
            spans.add("wait for workers", "wait", begin, datapoint=self.dispatcher.due)
            spans.flush()
        return news

    def inputs(self, begin: int, end: int, kept: bool) -> tuple[int, Any]:
        """Returns the end of a range, shortened if the source ends earlier, and its inputs.

        Args:
            begin: the first datapoint of the range.
            end: the one after the last.
            kept: whether the inputs stay in this process, and are not pickled at once.
        """
        assert self.source is not None
        if begin in self._again:
            inputs = self._again.pop(begin)
            return begin + len(inputs), inputs
        made = SteadyList() if self._steady else DatapointList(end - begin, kept)
        before = as_lists(self.source_marks)
        skipped = begin - self._source_at  # these are already delivered
        try:
            made.extend(islice(self.source, skipped, skipped + end - begin))
        except Exception as error:
            self.source_error = error
        self._source_at = begin + len(made)
        if self._source_at < end:
            self.dispatcher.end_at(self._source_at)
        if self.source_marks:
            self._marks_before[begin] = marks_throughout(before, self.source_marks)
        return self._source_at, made.take()

    def fail(self, number: int, failure: Failure, in_its_place: list[Any] | None) -> bool:
        """Replaces a datapoint by its error, or skips it; returns whether the pass continues.

        Args:
            number: index of the datapoint.
            failure: the error.
            in_its_place: the replacement for a skipped datapoint; `None` if it is not skipped.
        """
        if in_its_place is None:
            self.add_result(TaskResult(self.number, number, number, failure=failure), None)
            return False
        skipped = ((number, failure.summary),)
        self.add_result(
            TaskResult(self.number, number, number + 1, skipped=skipped), InProcessMessage(in_its_place)
        )
        return True

    def may_retry(self, begin: int, on_error: str) -> bool:
        """Counts an attempt that took too long; tells whether to try again."""
        self._attempts[begin] = self._attempts.get(begin, 0) + 1
        return on_error == "retry" and self._attempts[begin] < ATTEMPTS

    def take_back(self, begin: int, inputs: list[Any] | None) -> None:
        """Takes a range back from a worker, to hand it out again."""
        if inputs is not None:
            self._again[begin] = inputs
        self.dispatcher.take_back(begin)

    def add_result(self, result: TaskResult, message: Message | None) -> None:
        """Passes the result of a task on to the dispatcher."""
        if self._marks_before:
            result = result._replace(marks=self._marks_before.pop(result.begin, None))
        if result.ended or result.unexpected_drop or result.failure is not None:
            self.dispatcher.end_at(result.end)
        if result.ended:
            self.final_marks = result.final_marks
        if result.failure is not None:
            self.follower = None  # the consumer receives an error, and no next pass
        size = 0 if message is None else message.size
        chunk = Chunk(result, message)
        self.dispatcher.complete(
            result.begin, result.end, chunk, size, result.seconds, going_on=result.going_on
        )


class Pool(Protocol):
    """Makes the datapoints of passes; the interface used by flows."""

    @property
    def running(self) -> bool:
        """Whether `start` was called and the workers have not ended."""

    def start(self, handler: TaskHandler) -> None:
        """Starts the workers with `handler`."""

    def close(self) -> None:
        """Ends the workers."""

    def chunks(self, this: ActivePass) -> Iterator[Chunk]:
        """Yields the results of a pass."""


@final
class InlinePool:
    """Has the methods of `WorkerPool` used by flows, without starting workers.

    A datapoint is made when the consumer requests it. The same handler makes it, so errors, marks and states
    equal those of a pass with workers.
    """

    running = False

    def __init__(self) -> None:
        """Starts without a handler."""
        self._handler: TaskHandler | None = None

    def start(self, handler: TaskHandler) -> None:
        """Sets the handler for later passes."""
        self._handler = handler

    def close(self) -> None:
        """Does nothing: nothing was started."""

    def chunks(self, this: ActivePass) -> Iterator[Chunk]:
        """Yields the results of a pass, of one datapoint each."""
        assert self._handler is not None
        handler = copy.copy(self._handler).in_thread()
        this.number = 0
        handler.open(this.number, this.spec)
        dispatcher = this.dispatcher
        while not dispatcher.finished:
            index_range = dispatcher.next_range()
            if index_range is not None:
                self._make(handler, this, *index_range)
            while (chunk := dispatcher.take()) is not None:
                yield chunk
        if this.source_error is not None:
            raise this.source_error

    def _make(self, handler: TaskHandler, this: ActivePass, begin: int, end: int) -> None:
        inputs = None
        if this.source is not None:
            end, inputs = this.inputs(begin, end, False)
            if end == begin:
                this.add_result(TaskResult(this.number, begin, begin), None)
                return
        result, made = handler.make(this.number, begin, end, inputs)
        this.add_result(result._replace(going_on=False), InProcessMessage(made))
