"""A worker that calls a function with what the parent sends."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

from .._seeding import Epoch
from . import _failures
from ._answer import Answer, Spec
from ._work import ATTEMPTS, Work


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
            for attempt in range(ATTEMPTS):
                try:
                    made.append(self._call(inputs[index - begin], epoch, index))
                    break
                except Exception as error:
                    if self._on_error == "retry" and attempt + 1 < ATTEMPTS:
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
