"""Tasks of `MultiProcessMapData`: a worker calls a function with inputs from the parent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Any, NamedTuple, final

from ...batch._buffer_pool import BatchAllocator
from ...batch._collate import Collator
from ...flow._epoch import Epoch
from ..transport._collected_datapoints import DatapointList
from ..transport._remote_errors import pack_error
from ._task_handler import ATTEMPTS, PassSpec, TaskHandler, TaskResult

__all__ = ["BatchInputs", "MapTaskHandler"]


@final
class BatchInputs(NamedTuple):
    """Inputs of one batch of outputs.

    Attributes:
        first: number of the first input.
        datapoints: all inputs.
    """

    first: int
    datapoints: list[Any]


@final
class MapTaskHandler(TaskHandler):
    """Calls a function with datapoints from the parent, one by one or for a batch.

    Args:
        func: a function of a datapoint, and of a generator with `rng`.
        rng: whether `func` takes a generator.
        on_error: see `TaskHandler`.
    """

    work = "map"

    def __init__(self, func: Callable[..., Any], rng: bool, on_error: str) -> None:
        """Stores the function."""
        super().__init__(on_error)
        self._func = func
        self._rng = rng
        self._memory = BatchAllocator()
        self._epochs: dict[int, Epoch] = {}

    def contents(self) -> dict[str, Any]:
        """Returns the function."""
        return {"func": self._func}

    def in_thread(self) -> MapTaskHandler:
        """Separates the epochs of this handler from those of the others."""
        self._epochs = {}
        self._in_thread = True
        return self

    def prepare(self, memory: BatchAllocator) -> None:
        """Builds batches in the memory from which they are sent."""
        self._memory = memory

    def in_place_of_skipped(self) -> list[Any]:
        """Returns the result of a function that drops its datapoint."""
        return [None]

    def open(self, number: int, spec: PassSpec) -> None:
        """Stores the epoch, for its random numbers."""
        self._epochs[number] = spec.to_epoch()

    def close(self, number: int) -> None:
        """Drops the epoch."""
        del self._epochs[number]

    def make(self, number: int, begin: int, end: int, inputs: Any) -> tuple[TaskResult, Any]:
        """Calls the function with each of the inputs, or with the inputs of each batch."""
        clock = perf_counter()
        attempts = _Attempts(self._func, self._epochs[number] if self._rng else None, self.on_error)
        made = DatapointList(end - begin, self._in_thread)
        failure = None
        try:
            made.extend(self._outputs(attempts, inputs, begin))
        except Exception as error:
            failure = self.packed(error)
        result = TaskResult(number, begin, begin + len(made), perf_counter() - clock)
        if result.end < end and failure is None:  # at a batch with a dropped datapoint
            return result._replace(unexpected_drop=True), made.take()
        return result._replace(
            skipped=tuple(attempts.skipped),
            retried=attempts.retried,
            failure=failure,
        ), made.take()

    def _outputs(self, attempts: _Attempts, inputs: Any, begin: int) -> Iterator[Any]:
        """Yields the results of the function, or batches of them as long as nothing is dropped."""
        for number, datapoint in enumerate(inputs, begin):
            if type(datapoint) is not BatchInputs:
                yield attempts.call(datapoint, number)
            elif (batch := self._batch(attempts, datapoint)) is not None:
                yield batch
            else:
                return

    def _batch(self, attempts: _Attempts, inputs: BatchInputs) -> Any:
        """Makes the batch of some inputs; `None` if the function drops any of them."""
        collator = Collator(len(inputs.datapoints), memory=self._memory, number=inputs.first)
        for number, datapoint in enumerate(inputs.datapoints, inputs.first):
            made = attempts.call(datapoint, number)
            if made is None:
                return None
            collator.add(made)
        return collator.take()


@final
class _Attempts:
    """Calls of the function, repeated or skipped on failure according to `on_error`."""

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
                    self.skipped.append((index, pack_error(error).summary))
                    return None
                if self._on_error == "raise" or attempt == ATTEMPTS:
                    raise
                self.retried += 1
        raise AssertionError

    def _once(self, datapoint: Any, index: int) -> Any:
        func, epoch = self._func, self._epoch
        return func(datapoint) if epoch is None else func(datapoint, epoch.rng(index))
