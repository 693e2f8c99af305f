"""`MultiProcessMapAndBatchData`: maps and batches in the same worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Self, final

from .._errors import BatchError
from ..batch._batch_data import BatchData
from ..flow._epoch import Epoch
from ..flow._node import Effect
from ..flow._user_code import drain, record_origin
from ..operators._map_data import MapData
from ..operators._proxy_flow import ProxyDataFlow
from ..sources._from_iterable import as_dataflow
from ._multi_process import MultiProcessMapData, MultiProcessRunner
from ._parallel_flow import ErrorCounts, close_below

if TYPE_CHECKING:
    from .transport._remote_errors import Failure
    from .worker._map_tasks import BatchInputs

__all__ = ["MultiProcessMapAndBatchData"]


@final
class MultiProcessMapAndBatchData(ProxyDataFlow):
    """`BatchData` over `MapData`, made in worker processes.

    The batches are those of `BatchData(MapData(ds, func), batch_size)`, in order. If `ds` is addressable,
    workers read it themselves; a stream is read in this process, and each worker receives the datapoints of a
    batch. In both cases the worker writes each item directly into the consumer's memory. If the function
    drops datapoints, or with `ordered=False`, the datapoints of a stream are mapped one by one and batched in
    this process.

    Args:
        ds: the flow below.
        num_workers: number of processes, "auto" or 0, as in `MultiProcessRunner`.
        func: as in `MapData`.
        batch_size: as in `BatchData`.
        remainder: as in `BatchData`.
        rng: as in `MapData`.
        drops: as in `MapData`.
        options: the other arguments of `MultiProcessMapData`.

    Raises:
        ArgumentError: an argument has an invalid value.

    Example:
        >>> flow = MultiProcessMapAndBatchData([[1], [2], [3], [4]], 2, lambda dp: [dp[0] * 10], 2)
        >>> [numbers.tolist() for numbers, in flow]
        [[10, 20], [30, 40]]
    """

    effect = Effect(keeps_place=True, passes_on=True)

    def __init__(
        self,
        ds: Any,
        num_workers: int | str,
        func: Callable[..., Any],
        batch_size: int,
        *,
        remainder: bool = False,
        rng: bool = False,
        drops: bool = False,
        **options: Any,
    ) -> None:
        """Combines the three flows; starts nothing."""
        ds = as_dataflow(ds)
        if ds.addressable and not drops:
            batches = BatchData(MapData(ds, func, rng=rng), batch_size, remainder)
            super().__init__(MultiProcessRunner(batches, num_workers, **options))
        else:
            mapped = MultiProcessMapData(ds, num_workers, func, rng=rng, drops=drops, **options)
            super().__init__(BatchData(mapped, batch_size, remainder))

    def close(self) -> None:
        """Ends the workers; see `MultiProcessRunner`."""
        close_below(self)

    def __enter__(self) -> Self:
        """Returns this flow."""
        return self

    def __exit__(self, *error: object) -> None:
        """Ends the workers."""
        self.close()

    def _datapoints(self, epoch: Epoch, start: int) -> Iterator[Any]:
        batches = self.ds
        if isinstance(batches, BatchData):
            mapped = batches.ds
            assert isinstance(mapped, MultiProcessMapData)
            if mapped._options.ordered and not mapped._map._drops:
                return self._batched(batches, mapped, self._below(epoch), start)
        return super()._datapoints(epoch, start)

    def _batched(
        self, batches: BatchData, mapped: MultiProcessMapData, epoch: Epoch, start: int
    ) -> Iterator[Any]:
        """Yields batches made by one worker each, until a datapoint is dropped."""
        size = batches._batch_size
        place = mapped._below(batches._below(epoch))
        first = batches._first(epoch, start)
        arrange = partial(_by_batch, first=first, size=size, remainder=batches._remainder)
        this = mapped._pass(place, mapped._dispatcher(start, None, True), first, arrange)
        counts = ErrorCounts()
        for chunk in mapped._running_pool(place).chunks(this):
            result = chunk.result
            place.marks.update(result.marks or {})
            counts.add(result)
            made = chunk.open(batches._read_only)
            start += len(made)
            del chunk
            yield from drain(made)
            if result.unexpected_drop:
                # Datapoints move up from the next batch into this one: from here on only their order matters.
                mapped._map._warn_unexpected_drop(place, start * size)
                yield from batches._datapoints(epoch, start)
                return
            if result.failure is not None:
                self._raise(result.failure, batches, mapped)
        place.marks.update(this.source_marks)
        counts.log(mapped)

    def _raise(self, failure: Failure, batches: BatchData, mapped: MultiProcessMapData) -> None:
        from .transport._remote_errors import unpack_error

        error = unpack_error(failure)
        if isinstance(error, Exception):
            record_origin(error, batches if isinstance(error, BatchError) else mapped.ds)
        raise error


def _by_batch(datapoints: Iterator[Any], first: int, size: int, remainder: bool) -> Iterator[BatchInputs]:
    from .worker._map_tasks import BatchInputs

    while len(inputs := list(islice(datapoints, size))) == size:
        yield BatchInputs(first, inputs)
        first += size
    if inputs and remainder:
        yield BatchInputs(first, inputs)
