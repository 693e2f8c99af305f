"""One pass over a flow, as the parent knows it: what was asked for, what goes in, and what has come back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, NamedTuple
from weakref import WeakMethod

from ..transport._channel import Delivery
from ..worker._task_messages import Answer, Marks, Spec, copied, marks_for
from ..worker._worker_thread import Handed
from ._dispatcher import Dispatcher


class Chunk(NamedTuple):
    """An answer, and the datapoints in it, not unpacked yet; `None` if no worker has given it."""

    answer: Answer
    delivery: Delivery | Handed | None

    def open(self, read_only: bool) -> list[Any]:
        """The datapoints; views of shared memory may be asked to be read-only."""
        if self.delivery is None or not self.delivery.size:
            return []
        datapoints: list[Any] = self.delivery.open(read_only)
        return datapoints


class Pass:
    """One pass.

    Args:
        spec: which one.
        dispatcher: what has been handed out.
        source: where the inputs come from that travel with the stretches, if any do; from the datapoint on
            that the dispatcher begins with.
        source_marks: those of the flow that `source` iterates over, as they change.
        follower: makes the pass after this one, to be prefetched when this one is all handed out.
        pinned: the only worker that may have its stretches; else any may, or one if it is a stream.

    Attributes:
        number: what the workers call it.
        next: the pass after this one, if it has begun.
        final_marks: where a stream that has ended stands.
        source_error: what `source` raised.
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
        self.follower = follower
        self.pinned = pinned
        self.number = -1
        self.next: Pass | None = None
        self.final_marks: Marks | None = None
        self.source_error: Exception | None = None
        self._source_at = dispatcher.due
        self.source_marks: Marks = {} if source_marks is None else source_marks
        self._marks_before: dict[int, Marks] = {}

    def inputs(self, begin: int, end: int) -> list[Any]:
        """What the source gives for a stretch: less if it ends there, and then so does the pass."""
        assert self.source is not None
        inputs: list[Any] = []
        before = copied(self.source_marks)
        skipped = begin - self._source_at  # what the consumer has had already
        try:
            for datapoint in islice(self.source, skipped, skipped + end - begin):
                inputs.append(datapoint)
        except Exception as error:
            self.source_error = error
        self._source_at = begin + len(inputs)
        if len(inputs) < end - begin:
            self.dispatcher.end_at(self._source_at)
        if self.source_marks:
            self._marks_before[begin] = marks_for(before, self.source_marks)
        return inputs

    def answer(self, answer: Answer, delivery: Delivery | Handed | None) -> None:
        """What has become of a stretch."""
        if self._marks_before:
            answer = answer._replace(marks=self._marks_before.pop(answer.begin, None))
        if answer.ended or answer.surprise or answer.failure is not None:
            self.dispatcher.end_at(answer.end)
        if answer.ended:
            self.final_marks = answer.final_marks
        size = 0 if delivery is None else delivery.size
        chunk = Chunk(answer, delivery)
        self.dispatcher.answer(
            answer.begin, answer.end, chunk, size, answer.seconds, going_on=answer.going_on
        )
