"""No workers: the tasks of a pass run in the consumer's thread, one datapoint at a time."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import final

from ..worker._task_handler import TaskHandler, TaskResult
from ..worker._worker_thread import InProcessMessage
from ._active_pass import ActivePass, Chunk

__all__ = ["InlinePool"]


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
