"""A worker that reads a flow."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from time import perf_counter
from typing import Any

from ...batch._batch_allocator import BatchAllocator as Memory
from ...batch._batch_data import BatchData
from ...flow._flow import DataFlow
from ...flow._flow_state import set_seeds_below
from ..transport import _remote_errors as _failures
from ._task_handler import ATTEMPTS, Work
from ._task_messages import Answer, Marks, Spec, copied, marks_for

_PATIENCE = 0.02  # seconds after which a stretch is answered in part, so that others may take the rest


class Reading(Work):
    """Iterates over a flow.

    Args:
        flow: the flow.
        on_error: see `Work`.
    """

    def __init__(self, flow: DataFlow, on_error: str) -> None:
        """Takes the flow as it is."""
        super().__init__(on_error)
        self._flow = flow
        self._passes: dict[int, _ReadPass] = {}
        self._seeded: _ReadPass | None = None
        self._shared = False

    def contents(self) -> dict[str, Any]:
        """The flow."""
        return {self._flow._name(): self._flow}

    def in_thread(self) -> Reading:
        """With passes of its own; the flow has its seeds already."""
        self._passes = {}
        self._seeded = None
        self._shared = True
        return self

    def prepare(self, memory: Memory) -> None:
        """Opens files and so on; a batch on top of the flow is built right where it is sent from."""
        self._flow.reset_state()
        top = self._flow
        while top._transparent and top._children():
            top = top._children()[0]
        if type(top) is BatchData:
            top._memory = memory

    def open(self, number: int, spec: Spec) -> None:
        """Remembers what the pass is; iterates when asked to."""
        self._passes[number] = _ReadPass(self._flow, spec)

    def close(self, number: int) -> None:
        """Forgets the pass and its iterator."""
        del self._passes[number]

    def make(self, number: int, begin: int, end: int, inputs: Any) -> tuple[Answer, list[Any]]:
        """Iterates over the stretch, for as long as patience lasts."""
        this = self._passes[number]
        if self._seeded is not this and not self._shared:
            set_seeds_below(self._flow, this.spec.seeds)
            self._seeded = this
        clock = perf_counter()
        before = None if this.spec.addressable else this.marks()
        made: list[Any] = []
        skipped: list[tuple[int, str]] = []
        failed_at: list[int] = []
        failure = None
        position = begin
        while failure is None:
            try:
                position = this.read(position, end, made, clock + _PATIENCE)
                break
            except Exception as error:
                position = this.position
                failed_at.append(position)
                if self._on_error == "retry" and failed_at.count(position) < ATTEMPTS:
                    continue
                if self._on_error == "skip":
                    skipped.append((position, _failures.pack(error).summary))
                    position += 1
                else:
                    failure = _failures.pack(error, self._flow)
        retried = len(failed_at) if self._on_error == "retry" else 0
        seconds = perf_counter() - clock
        going_on = before is not None and position < end and not this.ended and failure is None
        marks = None if before is None else marks_for(before, this.marks())
        answer = Answer(number, begin, position, seconds, this.ended, going_on, marks)
        if this.spec.addressable and not self._flow.addressable:
            marks = this.marks() if not this.lost else None
            this.lost = True
            return answer._replace(end=begin, ended=False, surprise=True, marks=marks), []
        final = this.marks() if this.ended and before is not None else None
        return (
            answer._replace(final_marks=final, skipped=tuple(skipped), retried=retried, failure=failure),
            made,
        )


class _ReadPass:
    """One pass over a flow, wherever in it the worker stands."""

    def __init__(self, flow: DataFlow, spec: Spec) -> None:
        self.spec = spec
        self.position = -1
        self._begun = False
        self.ended = False
        self.lost = False  # the flow dropped a datapoint, and what comes here has no number any longer
        self._flow = flow
        self._epoch = spec.made()
        self._datapoints: Iterator[Any] = iter(())

    def marks(self) -> Marks:
        """A copy of where the operators stand."""
        return copied(self._epoch.marks)

    def read(self, begin: int, end: int, made: list[Any], late: float) -> int:
        """Appends datapoints `begin` to `end` to `made`, or fewer; returns the number of the next one."""
        if self.spec.addressable and not self._flow.addressable:
            return begin
        if self.ended and begin >= self.position:
            return begin
        if begin != self.position or not self._begun:
            self._datapoints = self._flow._datapoints(self._epoch, begin)
            self._begun = True
        self.position = begin
        try:
            for datapoint in islice(self._datapoints, end - begin):
                made.append(datapoint)
                self.position += 1
                if perf_counter() > late:
                    return self.position
        except Exception:
            self._begun = False
            raise
        self.ended = self.position < end
        return self.position
