"""What a worker does with the stretches it is asked for: read a flow, or call a function."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from itertools import islice
from time import perf_counter
from typing import Any, NamedTuple

from .._batch import BatchData
from .._collate import Allocate
from .._flow import DataFlow
from .._seeding import Epoch
from .._state import seeds_below, set_seeds_below
from . import _failures

_PATIENCE = 0.02  # seconds after which a stretch is answered in part, so that others may take the rest
_ATTEMPTS = 3

Marks = dict[str, list[int]]


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
    failure: _failures.Failure | None = None
    logs: tuple[tuple[int, str], ...] = ()


class Work(ABC):
    """What all workers of one runner do; travels to them once.

    Args:
        on_error: "raise", "skip" or "retry".
    """

    def __init__(self, on_error: str) -> None:
        """Remembers the policy."""
        self._on_error = on_error

    @abstractmethod
    def contents(self) -> dict[str, Any]:
        """What travels to the workers, under the names that a user knows it by."""

    @abstractmethod
    def in_thread(self) -> Any:
        """Itself, right after it was copied for a thread that shares the rest with others."""

    def prepare(self, allocate: Allocate) -> None:
        """Called once in the worker, before everything else."""

    @abstractmethod
    def open(self, number: int, spec: Spec) -> None:
        """Pass `number` begins."""

    @abstractmethod
    def close(self, number: int) -> None:
        """Nobody wants more of that pass."""

    @abstractmethod
    def make(self, number: int, begin: int, end: int, inputs: Any) -> tuple[Answer, list[Any]]:
        """Deals with a stretch, or with its beginning."""


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

    def prepare(self, allocate: Allocate) -> None:
        """Opens files and so on; a batch on top of the flow is built right where it is sent from."""
        self._flow.reset_state()
        top = self._flow
        while top._transparent and top._children():
            top = top._children()[0]
        if type(top) is BatchData:
            top._allocate = allocate

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
                if self._on_error == "retry" and failed_at.count(position) < _ATTEMPTS:
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


class Mapping(Work):
    """Calls a function with datapoints that the parent sends.

    Args:
        func: of a datapoint, and of a generator with `rng`.
        rng: whether it takes one.
        on_error: see `Work`.
    """

    def __init__(self, func: Callable[..., Any], rng: bool, on_error: str) -> None:
        """Takes the function as it is."""
        super().__init__(on_error)
        self._func = func
        self._rng = rng
        self._epochs: dict[int, Epoch] = {}

    def contents(self) -> dict[str, Any]:
        """The function."""
        return {"func": self._func}

    def in_thread(self) -> Mapping:
        """With epochs of its own."""
        self._epochs = {}
        return self

    def open(self, number: int, spec: Spec) -> None:
        """Remembers the epoch, for its random numbers."""
        self._epochs[number] = spec.made()

    def close(self, number: int) -> None:
        """Forgets it."""
        del self._epochs[number]

    def make(self, number: int, begin: int, end: int, inputs: Any) -> tuple[Answer, list[Any]]:
        """Calls the function with each of the inputs."""
        epoch = self._epochs[number]
        clock = perf_counter()
        made: list[Any] = []
        skipped: list[tuple[int, str]] = []
        retried = 0
        failure = None
        for index in range(begin, end):
            for attempt in range(_ATTEMPTS):
                try:
                    made.append(self._call(inputs[index - begin], epoch, index))
                    break
                except Exception as error:
                    if self._on_error == "retry" and attempt + 1 < _ATTEMPTS:
                        retried += 1
                        continue
                    failure = _failures.pack(error)
            if failure is not None and self._on_error == "skip":
                skipped.append((index, failure.summary))
                made.append(None)
                failure = None
            if failure is not None:
                end = index
                break
        seconds = perf_counter() - clock
        dropped = sum(datapoint is None for datapoint in made)
        return (
            Answer(
                number,
                begin,
                end,
                seconds,
                dropped=dropped,
                skipped=tuple(skipped),
                retried=retried,
                failure=failure,
            ),
            made,
        )

    def _call(self, datapoint: Any, epoch: Epoch, index: int) -> Any:
        return self._func(datapoint, epoch.rng(index)) if self._rng else self._func(datapoint)


def marks_for(before: Marks, after: Marks) -> Marks:
    """What is true all the way from `before` a stretch to `after` it.

    Marks made before serve any later place. Those that are new say that a flow turned out to drop datapoints,
    which a reader of the state has to know even if they stand too far ahead to be of use.
    """
    return {**copied(after), **before}


def copied(marks: Marks) -> Marks:
    """Marks that stay as they are now."""
    return {place: list(mark) for place, mark in marks.items()}
