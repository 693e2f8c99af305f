"""`MultiProcessMapData`: a function called in parallel, over a flow that stays in one place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ..flow._epoch import Epoch
from ..operators._map_data import FilterMark, MapData
from ._multi_process_runner import drained
from ._parallel_flow import Counts, ParallelFlow
from .pool._delivery_log import MapLedger, UnorderedMapLedger, own_key

if TYPE_CHECKING:
    from .pool._active_pass import Chunk, Pass
    from .pool._dispatcher import Dispatcher
    from .worker._task_handler import Work
    from .worker._task_messages import Answer


class MultiProcessMapData(ParallelFlow):
    """`MapData` whose function is called in worker processes; the flow below is read in this one.

    The datapoints are those of `MapData(ds, func)`: each once a pass, in order, with the same random numbers,
    and `None` drops. Use it for a flow that must stay in one place, because it is a stream or holds an open
    file. Where `ds` is addressable, a `MultiProcessRunner` over `MapData(ds, func)` saves the way of the
    inputs to the workers.

    Args:
        ds: the flow below.
        num_workers: how many processes, or "auto".
        func: as in `MapData`. With `on_error="retry"` it may see the same object again.
        rng: as in `MapData`.
        drops: as in `MapData`.
        ordered: as in `MultiProcessRunner`: `False` gives what is ready first.
        prefetch_bytes: as in `MultiProcessRunner`.
        start_method: as in `MultiProcessRunner`.
        worker_init_fn: as in `MultiProcessRunner`.
        on_error: "raise", "skip" (as if the function had returned `None`) or "retry", three times in all.
        stall_warning: as in `MultiProcessRunner`.

    Raises:
        ArgumentError: if an argument cannot work.
        SendError: while iterating, if the function or a datapoint cannot be sent; says which part of it.
        WorkerDiedError: while iterating, if a worker was killed.

    Example:
        >>> list(MultiProcessMapData([[1], [2], [3]], 2, lambda dp: [dp[0] * 10]))
        [[10], [20], [30]]
    """

    _shares_streams = True

    def __init__(
        self,
        ds: Any,
        num_workers: int | str,
        func: Callable[..., Any],
        *,
        rng: bool = False,
        drops: bool = False,
        ordered: bool = True,
        prefetch_bytes: int = 2**28,
        start_method: str | None = None,
        worker_init_fn: Callable[[int], Any] | None = None,
        on_error: str = "raise",
        stall_warning: float = 60.0,
    ) -> None:
        """Puts `func` over `ds`; starts nothing."""
        super().__init__(
            MapData(ds, func, rng=rng, drops=drops or on_error == "skip"),
            num_workers,
            ordered=ordered,
            prefetch_bytes=prefetch_bytes,
            start_method=start_method,
            worker_init_fn=worker_init_fn,
            on_error=on_error,
            stall_warning=stall_warning,
        )

    def _work(self) -> Work:
        from .worker._map_tasks import Mapping

        ours = self._map
        return Mapping(ours._func, ours._rng, self._on_error)

    def _read(self, epoch: Epoch, start: int, stop: int | None) -> Iterator[Any]:
        ours = self._map
        ledger, ordered = self._ledger(epoch, start, stop)
        dispatcher = self._dispatcher(ledger.start, stop, ordered, ledger.done)
        this = self._pass(epoch, dispatcher, ledger.start)
        counts = Counts()
        for chunk in self._running_crew().chunks(this):
            answer = chunk.answer
            epoch.marks.update(ledger.enter(answer))
            counts.add(answer)
            datapoints = chunk.open(self._read_only)
            del chunk
            if ours._drops:  # perhaps another iterator has found that out
                epoch.marks[epoch.key] = ledger.of_map
            for datapoint in drained(datapoints):
                if datapoint is None and not ours._drops:
                    ours._warn_unexpected_drop(epoch, start)
                    epoch.marks[epoch.key] = ledger.of_map
                if ledger.step(datapoint is None):
                    yield datapoint
                del datapoint
            ledger.leave(answer)
            if answer.failure is not None:
                self._raise(answer)
        epoch.marks.update(this.source_marks)
        counts.log(self)

    def _pass(
        self,
        epoch: Epoch,
        dispatcher: Dispatcher[Chunk],
        first: int,
        arrange: Callable[[Iterator[Any]], Iterator[Any]] = iter,
    ) -> Pass:
        """A pass whose inputs are the datapoints of the flow below from `first` on, as arranged."""
        from .pool._active_pass import Pass
        from .worker._task_messages import Spec, copied

        place = self._map._below(epoch)
        # Marks of its own, because it is read ahead; the consumer's follow when it has come that far.
        marks = copied(place.marks)
        for own in (epoch.key, own_key(epoch)):  # this flow's, which no answer shall set back
            marks.pop(own, None)
        below = Epoch(place, place.seed, place.path, marks, place.era)
        source = arrange(self._map.ds._datapoints(below, first))
        return Pass(Spec.of(epoch, None), dispatcher, source=source, source_marks=below.marks)

    @property
    def _map(self) -> MapData:
        ours = self.ds
        assert isinstance(ours, MapData)
        return ours

    def _ledger(self, epoch: Epoch, start: int, stop: int | None) -> tuple[MapLedger, bool]:
        """What was read so far, and whether it is to go on in order."""
        ours = self._map
        if not self._ordered and stop is None and (not ours._drops or UnorderedMapLedger.knows(epoch, start)):
            return UnorderedMapLedger(epoch, start), False
        # How many were read for what was given is not known: then only order can tell what comes next.
        if ours._drops:
            return MapLedger(FilterMark.before(epoch, start), start), True
        return MapLedger(FilterMark(epoch.outer_epoch, int(epoch), start, start), start), True

    def _raise(self, answer: Answer) -> None:
        from .transport._remote_errors import unpack

        assert answer.failure is not None
        raise unpack(answer.failure, self.ds)

    def _name(self) -> str:
        return f"MultiProcess{self.ds._name()}"
