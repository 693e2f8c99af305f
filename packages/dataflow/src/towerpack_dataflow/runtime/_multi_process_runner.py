"""`MultiProcessRunner`: a flow, run by other processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import TYPE_CHECKING, Any
from weakref import WeakMethod

import numpy as np

from .._errors import ArgumentError, NotAddressableError
from ..flow._epoch import Epoch
from ..flow._flow import known_length
from ..flow._flow_state import load_marks as recognise
from ..operators._repeat import RepeatedData
from ._parallel_flow import Counts, ParallelFlow
from .pool._delivery_log import Ledger, SkippingLedger, UnorderedLedger

if TYPE_CHECKING:
    from .pool._active_pass import Pass
    from .worker._task_handler import Work
    from .worker._task_messages import Answer, Spec


class MultiProcessRunner(ParallelFlow):
    """Runs the flow below in worker processes, and gives exactly its datapoints.

    Each datapoint comes once a pass, in the order and with the random numbers of the flow below alone, for
    any number of workers; states are the same too, so a run may go on with another number of workers. Arrays
    arrive as views of shared memory, writable, which belong to the consumer for as long as it keeps them.

    An addressable flow is divided among the workers as they have time. A stream can only be walked in order:
    one worker does that, ahead of the consumer, and more would not help. To use them, put the work into
    `MultiProcessMapData`, which reads a stream in one place and calls the function in many.

    A `BatchData` at the top of `ds` is the fast way to make large batches: it writes each item where the
    consumer will read it.

    Workers are fresh interpreters that get the flow by cloudpickle, start with the first pass, stay for all,
    and begin the next pass when the one before is done. No main guard is needed. What is changed in `ds` from
    outside after that start, other than by `seed()` and states, does not reach them.

    Args:
        ds: the flow below.
        num_workers: how many processes; "auto" for as many as `autotune` finds worth it.
        ordered: `False` gives datapoints as they are made; still each exactly once, also after resuming. The
            flow is a stream then, whose state says which datapoints were given; it fits a flow without order.
            A flow above that reads ahead and cannot say what it has read, such as a shuffling buffer of one's
            own, or that is resumed by reading again, needs order below it.
        replicate: every worker runs the whole flow with a seed of its own, endlessly; datapoints are taken
            from each in turn, `len(ds)` a pass if that is known. As Tensorpack's runners did.
        prefetch_bytes: bound on the bytes made ahead of the consumer. The same number of bytes it may hold in
            views; what it keeps beyond them is copied.
        start_method: "spawn", "fork" for workers that inherit this process's memory as it is, or "thread" as
            in `MultiThreadRunner`. By default "thread" on free-threaded builds of Python, else "spawn".
        worker_init_fn: called in each worker with its number, before `ds` is reset there.
        on_error: what to do with a datapoint that fails: "raise" its error here, "skip" the datapoint, or
            "retry" it, three times in all. The last two need an addressable flow, and what they did is logged
            at the end of a pass.
        stall_warning: seconds without progress after which a warning says who waits for whom.

    Raises:
        ArgumentError: if an argument cannot work.
        SendError: while iterating, if the flow cannot be sent to a worker; says which part of it.
        WorkerDiedError: while iterating, if a worker was killed.

    Example:
        >>> from towerpack_dataflow import DataFromList, MapData
        >>> flow = MapData(DataFromList(list(range(4)), shuffle=False), lambda number: [number * 10])
        >>> list(MultiProcessRunner(flow, num_workers=2))
        [[0], [10], [20], [30]]
    """

    def __init__(
        self,
        ds: Any,
        num_workers: int | str,
        *,
        ordered: bool = True,
        replicate: bool = False,
        prefetch_bytes: int = 2**28,
        start_method: str | None = None,
        worker_init_fn: Callable[[int], Any] | None = None,
        on_error: str = "raise",
        stall_warning: float = 60.0,
    ) -> None:
        """Checks the arguments; starts nothing."""
        super().__init__(
            ds,
            num_workers,
            ordered=ordered,
            prefetch_bytes=prefetch_bytes,
            # Copies of a flow cannot share what it keeps from one datapoint to the next.
            start_method="spawn" if replicate and start_method is None else start_method,
            worker_init_fn=worker_init_fn,
            on_error=on_error,
            stall_warning=stall_warning,
        )
        self._replicate = replicate
        if replicate and self._start_method == "thread":
            raise ArgumentError(
                'replicate=True needs start_method="spawn" or "fork": threads share one flow instead'
            )
        if on_error != "raise" and (replicate or not self.ds.addressable):
            raise ArgumentError(
                f"on_error={on_error!r} needs an addressable flow, of which one datapoint can be left out or "
                f"made again; {self.ds._name()} is a stream. Put what may fail into MultiProcessMapData"
            )
        if on_error == "skip" and not ordered:
            raise ArgumentError(
                'on_error="skip" needs ordered=True: only then can a state say which datapoints were left out'
            )

    @property
    def fixed_batch_size(self) -> int | None:
        """As the flow below."""
        return self.ds.fixed_batch_size

    @property
    def addressable(self) -> bool:
        """As the flow below, unless it is replicated, or errors are skipped."""
        return not self._replicate and super().addressable

    def reset_state(self) -> None:
        """The flow below is reset in each worker, when that starts; here only if workers are threads."""
        if self._start_method == "thread":
            super().reset_state()
        self._ready = True

    def _work(self) -> Work:
        from .worker._read_tasks import Reading

        return Reading(RepeatedData(self.ds, -1) if self._replicate else self.ds, self._on_error)

    def _read(self, epoch: Epoch, start: int, stop: int | None) -> Iterator[Any]:
        if self._replicate:
            return self._replicas(epoch, start)
        return self._exact(epoch, start, stop)

    def _exact(self, epoch: Epoch, start: int, stop: int | None) -> Iterator[Any]:
        from .worker._task_messages import Spec

        spec = Spec.of(epoch, self.ds)
        while True:
            surprise = yield from self._pass(epoch, spec, start, stop)
            if surprise is None:
                return
            # A flow that was said to drop nothing has dropped something. What came so far is right; from here
            # on indices mean nothing, and the rest of the pass is walked in order, by one worker.
            start = surprise.begin
            spec = Spec.of(epoch, self.ds)._replace(addressable=False)

    def _pass(self, epoch: Epoch, spec: Spec, start: int, stop: int | None) -> Any:
        ledger = self._ledger(spec, epoch, start)
        counts = Counts()
        for chunk in self._running_crew().chunks(self._planned(spec, ledger, stop)):
            answer = chunk.answer
            if answer.marks:
                epoch.marks.update(answer.marks)
                recognise(self.ds, answer.marks, epoch.path)
            if answer.surprise:
                self._check_order(ledger, answer)
                return answer
            counts.add(answer)
            unseen = ledger.enter(answer)
            datapoints = chunk.open(self._read_only)
            del chunk  # what the consumer lets go of must not be held here
            yield from drained(datapoints[unseen:] if unseen else datapoints)
            ledger.leave()
            if answer.final_marks:
                epoch.marks.update(answer.final_marks)
            if answer.failure is not None:
                self._raise(answer)
        counts.log(self)
        return None

    def _ledger(self, spec: Spec, epoch: Epoch, start: int) -> Ledger:
        if self._on_error == "skip":
            return SkippingLedger(epoch, start)
        return Ledger(start) if self._in_order(spec) else UnorderedLedger(epoch, start)

    def _planned(self, spec: Spec, ledger: Ledger, stop: int | None) -> Pass:
        from .pool._active_pass import Pass

        # Weak, because the crew must not keep alive the flow whose end is its own.
        follower: Any = WeakMethod(self._following) if stop is None else None
        spec, end = self._bounded(spec)
        dispatcher = self._dispatcher(
            ledger.start, end if stop is None else stop, self._in_order(spec), ledger.done
        )
        return Pass(spec, dispatcher, follower=follower)

    def _following(self, this: Pass) -> Pass:
        """The next epoch, to be made while the consumer is still busy with this one."""
        from .pool._active_pass import Pass

        marks = this.spec.marks if this.final_marks is None else this.final_marks
        spec, end = self._bounded(this.spec._replace(epoch=this.spec.epoch + 1, marks=marks))
        return Pass(spec, self._dispatcher(0, end, self._in_order(spec)), follower=this.follower)

    def _bounded(self, spec: Spec) -> tuple[Spec, int | None]:
        """With the end of the pass; what loses its length in this very moment is walked in order."""
        stop = known_length(self.ds) if spec.addressable else None
        return spec._replace(addressable=stop is not None), stop

    def _in_order(self, spec: Spec) -> bool:
        return self._ordered or not spec.addressable

    def _check_order(self, ledger: Ledger, answer: Answer) -> None:
        if any(end > answer.begin for _, end in ledger.done):
            raise NotAddressableError(
                f"{self.ds._name()} dropped datapoint {answer.begin} or one soon after it, although nothing "
                "said that it would, and later ones are out already; say drops=True in the MapData that "
                "drops, or use ordered=True"
            )

    def _raise(self, answer: Answer) -> None:
        from .transport._remote_errors import unpack

        assert answer.failure is not None
        raise unpack(answer.failure, self if self._replicate else self.ds)

    def _replicas(self, epoch: Epoch, start: int) -> Iterator[Any]:
        size = known_length(self.ds)
        # Copies run on from pass to pass; without a length there is only one pass, which never ends.
        first = start if size is None else int(epoch) * size + start
        streams = [self._replica(epoch, number, first, size) for number in range(self._num_workers)]
        turns = count(first) if size is None else range(first, first + size - start)
        for turn in turns:
            yield next(streams[turn % self._num_workers])

    def _replica(self, epoch: Epoch, number: int, first: int, size: int | None) -> Iterator[Any]:
        from .pool._active_pass import Pass
        from .worker._task_messages import Spec

        workers = self._num_workers
        seed = _seed_of_copy(epoch.seed, number)
        own = Epoch(int(epoch) if size is None else 0, seed, epoch.path, None, epoch.era)
        spec = Spec.of(own, None)._replace(addressable=False)
        start = (first - number + workers - 1) // workers
        this = Pass(spec, self._dispatcher(start, None, True), pinned=number)
        for chunk in self._running_crew().chunks(this):
            answer = chunk.answer
            datapoints = chunk.open(self._read_only)
            del chunk
            yield from drained(datapoints)
            if answer.failure is not None:
                self._raise(answer)

    def _name(self) -> str:
        return f"MultiProcessRunner({self._num_workers})"


def drained(datapoints: list[Any]) -> Iterator[Any]:
    """The members of a list; large ones are let go of as they are handed out."""
    if len(datapoints) > _FEW:
        return iter(datapoints)
    return (datapoints.pop(0) for _ in range(len(datapoints)))


_FEW = 8


def _seed_of_copy(seed: int, number: int) -> int:
    state = np.random.SeedSequence(seed, spawn_key=(number,)).generate_state(2, np.uint32)
    return int(state[0]) | int(state[1] & 0xFFFF) << 32
