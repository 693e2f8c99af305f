"""The notes between parent and worker that travel beside the datapoints: passes and results of tasks."""

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
    """Everything that the datapoints of a pass are a function of.

    Attributes:
        epoch, outer_epoch, seed, path, marks: the arguments of an `Epoch`.
        seeds: those given to flows further down, by their places.
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
        """Makes the epoch, with marks of its own."""
        return Epoch(self.epoch, self.seed, self.path, as_lists(self.marks), self.outer_epoch)

    def same_pass(self, other: PassSpec) -> bool:
        """Says whether the datapoints and their trace are the same; marks only tell how to get there."""
        return self._replace(marks={}) == other._replace(marks={})


@final
class TaskResult(NamedTuple):
    """What became of a task: a stretch of datapoints of one pass. The datapoints travel beside the result.

    Attributes:
        number: of the pass.
        begin, end: the datapoints that are dealt with.
        seconds: how long they took.
        ended: whether the pass has no more.
        going_on: whether the rest of the stretch follows by itself: a stream cannot be handed to others.
        marks: of a stream: where to go on from anywhere among these datapoints; see `marks_throughout`.
        final_marks: of a stream that has ended: where it stands now.
        unexpected_drop: an addressable flow dropped a datapoint here, so that these indices mean nothing.
        dropped: how many of the datapoints are `None`.
        skipped: numbers and errors of those left out because of an error.
        retried: how many were made only after an error.
        failure: the error that took the place of datapoint `end`.
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
    """Returns the marks that hold all the way from `before` a stretch to `after` it.

    Marks made before serve any later place. Those that are new say that a flow turned out to drop datapoints,
    which a reader of the state has to know even if they stand too far ahead to be of use.
    """
    return {**as_lists(after), **before}
