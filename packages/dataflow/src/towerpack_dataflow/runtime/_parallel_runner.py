"""`ParallelRunner`: runs a flow in several workers, with exactly the datapoints of one process."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING, Any
from weakref import WeakMethod

import numpy as np

from .._errors import ArgumentError, NotAddressableError
from ..batch._batch_data import BatchData
from ..flow._epoch import Epoch
from ..flow._flow import DataFlow
from ..flow._flow_state import load_marks
from ..flow._tree_fingerprint import known_length
from ..flow._user_code import drain
from ..operators._repeat import RepeatedData
from ..operators._shard import ShardData
from ._delivery_log import DeliveryLog, OrderedLog, SkippingLog, UnorderedLog
from ._parallel_flow import ErrorCounts, ParallelFlow

if TYPE_CHECKING:
    from .pool._active_pass import ActivePass
    from .worker._task_handler import PassSpec, TaskHandler, TaskResult
    from .worker._worker_options import WorkerOptions

__all__ = ["ParallelRunner", "contiguous"]

_FEWEST = 4  # contiguous ranges of each worker in a pass: with fewer, one may have to wait for another


class ParallelRunner(ParallelFlow):
    """Runs the flow below in workers; see `MultiProcessRunner`.

    Args:
        ds: the flow below.
        num_workers: number of workers, or "auto".
        options: the options of the workers.
        replicate: whether each worker runs the whole flow with a different seed.

    Raises:
        ArgumentError: the arguments contradict each other or the flow.
    """

    def __init__(
        self, ds: Any, num_workers: int | str, options: WorkerOptions, *, replicate: bool = False
    ) -> None:
        """Checks that the arguments fit together; starts nothing."""
        super().__init__(ds, num_workers, options)
        self._replicate = replicate
        on_error = options.on_error
        if replicate and options.start_method == "thread":
            raise ArgumentError(
                'replicate=True needs start_method="spawn" or "fork": threads share one flow instead'
            )
        if replicate and self._num_workers == 0:
            raise ArgumentError("replicate=True needs at least one worker, since each has a separate copy")
        if on_error != "raise" and (replicate or not self.ds.addressable):
            raise ArgumentError(
                f"on_error={on_error!r} needs an addressable flow, in which a datapoint can be skipped or "
                f"repeated; {self.ds._name()} is a stream. Put the failing code into MultiProcessMapData"
            )
        if on_error == "skip" and not options.ordered:
            raise ArgumentError(
                'on_error="skip" needs ordered=True: only then can a state record the skipped datapoints'
            )

    @property
    def fixed_batch_size(self) -> int | None:
        """The batch size of the flow below, if it is fixed."""
        return self.ds.fixed_batch_size

    @property
    def addressable(self) -> bool:
        """Whether `datapoint(epoch, index)` works: as below, unless replicated or with skipped errors."""
        return not self._replicate and super().addressable

    @property
    def endless(self) -> bool:
        """Whether no pass ends: each worker repeats the flow, or the flow is endless."""
        return self._replicate or super().endless

    def reset_state(self) -> None:
        """Resets the flow below if it is read in this process; else each worker does so when it starts."""
        if self._in_process:
            super().reset_state()
        self._ready = True

    def _name(self) -> str:
        return f"{type(self).__name__}({self._num_workers})"

    def _handler(self) -> TaskHandler:
        from .worker._read_tasks import ReadTaskHandler

        flow = RepeatedData(self.ds, -1) if self._replicate else self.ds
        handler = ReadTaskHandler(flow, self._options.on_error, replicates=self._replicate)
        handler.continues_range = self._contiguous() > 1
        return handler

    def _contiguous(self) -> int:
        workers = self._worker_count
        return contiguous(self.ds, workers) if workers and self.ds.addressable and not self._replicate else 1

    def _read(self, epoch: Epoch, start: int, stop: int | None) -> Iterator[Any]:
        if self._replicate:
            return self._replicas(epoch, start)
        return self._exact(epoch, start, stop)

    def _exact(self, epoch: Epoch, start: int, stop: int | None) -> Iterator[Any]:
        from .worker._task_handler import PassSpec

        spec = PassSpec.of(epoch, self.ds)
        while True:
            drop = yield from self._pass(epoch, spec, start, stop)
            if drop is None:
                return
            # A flow declared to drop nothing has dropped a datapoint. All datapoints so far are right; from
            # here on indices are invalid, and one worker reads the rest of the pass in order.
            start = drop.begin
            spec = PassSpec.of(epoch, self.ds)._replace(addressable=False)

    def _pass(self, epoch: Epoch, spec: PassSpec, start: int, stop: int | None) -> Any:
        """Yields the datapoints of a pass; returns a result with an unexpected drop, if any."""
        log = self._delivery_log(spec, epoch, start)
        counts = ErrorCounts()
        for chunk in self._running_pool(epoch).chunks(self._planned(spec, log, stop)):
            result = chunk.result
            if result.marks:
                epoch.marks.update(result.marks)
                load_marks(self.ds, result.marks, epoch.path)
            if result.unexpected_drop:
                self._check_order(log, result)
                return result
            counts.add(result)
            unseen = log.enter(result)
            datapoints = chunk.open(self._read_only)
            del chunk  # slots released by the consumer must not be held here
            yield from drain(datapoints[unseen:] if unseen else datapoints)
            log.leave()
            if result.final_marks:
                epoch.marks.update(result.final_marks)
            if result.failure is not None:
                self._raise(result.failure, self.ds)
        counts.log(self)
        return None

    def _delivery_log(self, spec: PassSpec, epoch: Epoch, start: int) -> DeliveryLog:
        if self._options.on_error == "skip":
            return SkippingLog(epoch, start)
        return OrderedLog(start) if self._in_order(spec) else UnorderedLog(epoch, start)

    def _planned(self, spec: PassSpec, log: DeliveryLog, stop: int | None) -> ActivePass:
        from .pool._active_pass import ActivePass

        # Weak, because the pool ends with the flow and must not keep it alive.
        follower: Any = WeakMethod(self._following) if stop is None else None
        spec, end = self._bounded(spec)
        dispatcher = self._dispatcher(
            log.start, end if stop is None else stop, self._in_order(spec), log.done
        )
        return ActivePass(spec, dispatcher, follower=follower)

    def _following(self, this: ActivePass) -> ActivePass:
        """Makes the next epoch's pass, to run while the consumer is still reading this one."""
        from .pool._active_pass import ActivePass

        marks = this.spec.marks if this.final_marks is None else this.final_marks
        spec, end = self._bounded(this.spec._replace(epoch=this.spec.epoch + 1, marks=marks))
        return ActivePass(spec, self._dispatcher(0, end, self._in_order(spec)), follower=this.follower)

    def _bounded(self, spec: PassSpec) -> tuple[PassSpec, int | None]:
        """Returns the pass and its end; a flow that loses its length at this moment is a stream."""
        stop = known_length(self.ds) if spec.addressable else None
        return spec._replace(addressable=stop is not None), stop

    def _in_order(self, spec: PassSpec) -> bool:
        return self._options.ordered or not spec.addressable

    def _check_order(self, log: DeliveryLog, result: TaskResult) -> None:
        if any(end > result.begin for _, end in log.done):
            raise NotAddressableError(
                f"{self.ds._name()} dropped datapoint {result.begin} or one soon after it without a "
                "declaration, and later ones were already yielded; set drops=True in the MapData that "
                "drops, or use ordered=True"
            )

    def _replicas(self, epoch: Epoch, start: int) -> Iterator[Any]:
        size = known_length(self.ds)
        # Copies continue from pass to pass; without a length there is only one pass, which never ends.
        first = start if size is None else int(epoch) * size + start
        streams = [self._replica(epoch, number, first, size) for number in range(self._worker_count)]
        turns = count(first) if size is None else range(first, first + size - start)
        for turn in turns:
            yield next(streams[turn % self._worker_count])

    def _replica(self, epoch: Epoch, number: int, first: int, size: int | None) -> Iterator[Any]:
        from .pool._active_pass import ActivePass
        from .worker._task_handler import PassSpec

        workers = self._worker_count
        seed = _seed_of_copy(epoch.seed, number)
        own = Epoch(int(epoch) if size is None else 0, seed, epoch.path, None, epoch.outer_epoch)
        spec = PassSpec.of(own, None)._replace(addressable=False)
        start = (first - number + workers - 1) // workers
        this = ActivePass(spec, self._dispatcher(start, None, True), pinned=number)
        for chunk in self._running_pool(epoch).chunks(this):
            result = chunk.result
            datapoints = chunk.open(self._read_only)
            del chunk
            yield from drain(datapoints)
            if result.failure is not None:
                self._raise(result.failure, self)


def _seed_of_copy(seed: int, number: int) -> int:
    state = np.random.SeedSequence(seed, spawn_key=(number,)).generate_state(2, np.uint32)
    return int(state[0]) | int(state[1] & 0xFFFF) << 32


def contiguous(flow: DataFlow, workers: int) -> int:
    """Returns the number of consecutive datapoints of a flow for one worker.

    Workers that take turns within a row group of Parquet would all decode it.

    Args:
        flow: the flow of the workers.
        workers: their number.
    """
    rows, top = 1, flow
    while not (together := getattr(top, "_decoded_together", 0)):
        if len(top.children()) != 1:
            return 1
        rows *= top._batch_size if isinstance(top, BatchData) else 1
        rows *= top._count if isinstance(top, ShardData) else 1
        top = top.children()[0]
    return max(min(together // rows, (known_length(flow) or 0) // (_FEWEST * workers)), 1)
