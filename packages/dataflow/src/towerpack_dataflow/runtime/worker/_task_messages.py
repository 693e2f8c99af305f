"""What is asked of a worker, and what it answers: the notes that travel beside the datapoints."""

from __future__ import annotations

from typing import NamedTuple

from ...flow._epoch import Epoch
from ...flow._flow import DataFlow
from ...flow._flow_state import seeds_below
from ...flow._marks import Marks
from ..transport._remote_errors import Failure

__all__ = ["Answer", "Marks", "Spec", "copied", "marks_for"]


class Spec(NamedTuple):
    """Which pass: everything that its datapoints are a function of.

    Attributes:
        epoch, era, seed, path, marks: what an `Epoch` is made of.
        seeds: those given to flows further down, by their places.
        addressable: whether stretches may be asked for in any order.
    """

    epoch: int
    era: int
    seed: int
    path: tuple[int, ...]
    marks: Marks
    seeds: dict[str, int]
    addressable: bool

    @classmethod
    def of(cls, epoch: Epoch, flow: DataFlow | None) -> Spec:
        """The pass `epoch` over `flow`."""
        seeds = {} if flow is None else seeds_below(flow)
        addressable = flow is None or flow.addressable
        marks = copied(epoch.marks)
        return cls(int(epoch), epoch.era, epoch.seed, epoch.path, marks, seeds, addressable)

    def made(self) -> Epoch:
        """The epoch, with marks of its own."""
        return Epoch(self.epoch, self.seed, self.path, copied(self.marks), self.era)

    def same_pass(self, other: Spec) -> bool:
        """Whether the datapoints are the same; marks only say how to get there."""
        return self._replace(marks={}) == other._replace(marks={})


class Answer(NamedTuple):
    """What became of a stretch; the datapoints travel beside it.

    Attributes:
        number: of the pass.
        begin, end: the datapoints that were asked for and are dealt with.
        seconds: how long they took.
        ended: whether the pass has no more.
        going_on: whether the rest of the stretch follows by itself: a stream cannot be handed to others.
        marks: of a stream: where to go on from anywhere among these datapoints; see `marks_for`.
        final_marks: of a stream that has ended: where it stands now.
        surprise: an addressable flow dropped a datapoint here, so that these indices mean nothing.
        dropped: how many of the datapoints are `None`.
        skipped: numbers and errors of those left out because of an error.
        retried: how many came only after an error.
        failure: what came instead of datapoint `end`.
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
    surprise: bool = False
    dropped: int = 0
    skipped: tuple[tuple[int, str], ...] = ()
    retried: int = 0
    failure: Failure | None = None
    logs: tuple[tuple[int, str], ...] = ()


def marks_for(before: Marks, after: Marks) -> Marks:
    """What is true all the way from `before` a stretch to `after` it.

    Marks made before serve any later place. Those that are new say that a flow turned out to drop datapoints,
    which a reader of the state has to know even if they stand too far ahead to be of use.
    """
    return {**copied(after), **before}


def copied(marks: Marks) -> Marks:
    """Marks that stay as they are now."""
    return {place: list(mark) for place, mark in marks.items()}
