"""Messages between parent and worker that accompany the datapoints: passes and results of tasks."""

from __future__ import annotations

from typing import NamedTuple, final

from ...flow._epoch import Epoch
from ...flow._flow import DataFlow
from ...flow._flow_state import seeds_below
from ...flow._resume_marks import Marks, as_lists
from ..tracing import trace_directory
from ..transport import Failure

__all__ = ["PassSpec", "TaskResult", "marks_throughout"]


@final
class PassSpec(NamedTuple):
    """All values that determine the datapoints of a pass.

    Attributes:
        epoch, outer_epoch, seed, path, marks: the arguments of an `Epoch`.
        seeds: seeds of flows further down, by place.
        addressable: whether tasks may be handed out in any order.
        trace: the directory where workers write spans; empty for none.
    """

    epoch: int
    outer_epoch: int
    seed: int
    path: tuple[int, ...]
    marks: Marks
    seeds: dict[str, int]
    addressable: bool
    trace: str = ""

    @classmethod
    def of(cls, epoch: Epoch, flow: DataFlow | None) -> PassSpec:
        """Describes the pass `epoch` over `flow`."""
        seeds = {} if flow is None else seeds_below(flow)
        addressable = flow is None or flow.addressable
        marks = as_lists(epoch.marks)
        trace = trace_directory()
        return cls(int(epoch), epoch.outer_epoch, epoch.seed, epoch.path, marks, seeds, addressable, trace)

    def to_epoch(self) -> Epoch:
        """Makes the epoch, with separate marks."""
        return Epoch(self.epoch, self.seed, self.path, as_lists(self.marks), self.outer_epoch)

    def same_pass(self, other: PassSpec) -> bool:
        """Tells whether the datapoints and their trace are the same; marks do not change the datapoints."""
        return self._replace(marks={}) == other._replace(marks={})


@final
class TaskResult(NamedTuple):
    """The result of a task: a range of datapoints of one pass. The datapoints are sent along with it.

    Attributes:
        number: number of the pass.
        begin, end: bounds of the processed datapoints.
        seconds: time it took.
        ended: whether the pass has ended.
        going_on: whether the worker continues with the rest of the range: a stream cannot be handed to
            others.
        marks: for a stream: the marks to resume from anywhere among these datapoints; see `marks_throughout`.
        final_marks: for an ended stream: its last marks.
        unexpected_drop: an addressable flow dropped a datapoint here, so that these indices are invalid.
        dropped: number of datapoints that are `None`.
        skipped: numbers and errors of datapoints skipped because of an error.
        retried: number of datapoints made only after an error.
        failure: the error in place of datapoint `end`.
        logs: warnings, as (level, text).
    """

    number: int
    begin: int
    end: int
    seconds: float = 0.0
    ended: bool = False
    going_on: bool = False
    marks: Marks | None = None
    final_marks: Marks | None = None
    unexpected_drop: bool = False
    dropped: int = 0
    skipped: tuple[tuple[int, str], ...] = ()
    retried: int = 0
    failure: Failure | None = None
    logs: tuple[tuple[int, str], ...] = ()


def marks_throughout(before: Marks, after: Marks) -> Marks:
    """Returns the marks valid from `before` a range to `after` it.

    Marks made before serve any later place. New ones show that a flow drops datapoints; a reader of the state
    needs this even if they stand too far ahead to resume from.
    """
    return {**as_lists(after), **before}
