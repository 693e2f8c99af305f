"""A worker that calls a function with what the parent sends."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any, NamedTuple

from ...batch._batch_allocator import BatchAllocator as Memory
from ...batch._collate import Collator
from ...flow._epoch import Epoch
from ..transport import _remote_errors as _failures
from ._task_handler import ATTEMPTS, Work
from ._task_messages import Answer, Spec


class Group(NamedTuple):
    """Inputs whose outputs make up a batch.

    Attributes:
        first: number of the first one.
        datapoints: all of them.
    """

    first: int
    datapoints: list[Any]


class Mapping(Work):
    """Calls a function with datapoints that the parent sends, one by one or for a batch.

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
        self._memory = Memory()
        self._epochs: dict[int, Epoch] = {}

    def contents(self) -> dict[str, Any]:
        """The function."""
        return {"func": self._func}

    def in_thread(self) -> Mapping:
        """With epochs of its own."""
        self._epochs = {}
        return self

    def prepare(self, memory: Memory) -> None:
        """Batches are built right where they are sent from."""
        self._memory = memory

    def open(self, number: int, spec: Spec) -> None:
        """Remembers the epoch, for its random numbers."""
        self._epochs[number] = spec.made()

    def close(self, number: int) -> None:
        """Forgets it."""
        del self._epochs[number]

    def make(self, number: int, begin: int, end: int, inputs: Any) -> tuple[Answer, list[Any]]:
        """Calls the function with each of the inputs, or of the groups of inputs."""
        clock = perf_counter()
        calls = _Calls(self._func, self._epochs[number] if self._rng else None, self._on_error)
        made: list[Any] = []
        failure = None
        for index, datapoint in enumerate(inputs, begin):
            try:
                made.append(
                    self._batch(calls, datapoint)
                    if type(datapoint) is Group
                    else calls.call(datapoint, index)
                )
            except Exception as error:
                end, failure = index, _failures.pack(error)
                break
            if made[-1] is None and type(datapoint) is Group:
                return Answer(number, begin, index, perf_counter() - clock, surprise=True), made[:-1]
        dropped = sum(datapoint is None for datapoint in made)
        answer = Answer(number, begin, end, perf_counter() - clock, dropped=dropped)
        skipped = tuple(calls.skipped)
        return answer._replace(skipped=skipped, retried=calls.retried, failure=failure), made

    def _batch(self, calls: _Calls, group: Group) -> Any:
        """A batch of what comes of a group; `None` if the function drops any of it."""
        collator = Collator(len(group.datapoints), memory=self._memory, number=group.first)
        for number, datapoint in enumerate(group.datapoints, group.first):
            made = calls.call(datapoint, number)
            if made is None:
                return None
            collator.add(made)
        return collator.take()


class _Calls:
    """Calls of the function, made again or left out if they fail, as the user wants it."""

    def __init__(self, func: Callable[..., Any], epoch: Epoch | None, on_error: str) -> None:
        self._func = func
        self._epoch = epoch
        self._on_error = on_error
        self.skipped: list[tuple[int, str]] = []
        self.retried = 0

    def call(self, datapoint: Any, index: int) -> Any:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return self._once(datapoint, index)
            except Exception as error:
                if self._on_error == "skip":
                    self.skipped.append((index, _failures.pack(error).summary))
                    return None
                if self._on_error == "raise" or attempt == ATTEMPTS:
                    raise
                self.retried += 1
        raise AssertionError

    def _once(self, datapoint: Any, index: int) -> Any:
        func, epoch = self._func, self._epoch
        return func(datapoint) if epoch is None else func(datapoint, epoch.rng(index))
