"""`ParallelMap`: calls a function in workers, over a flow read in the consumer's process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ..flow._epoch import Epoch, as_lists
from ..flow._resume_marks import Replay
from ..flow._user_code import drain
from ..flow._written_flow import is_steady
from ..operators._map_data import FilterMark, MapData
from ..storage import snapshot
from ._delivery_log import MapDeliveryLog, OrderedMapLog, UnorderedMapLog, own_key
from ._parallel_flow import ErrorCounts, ParallelFlow

if TYPE_CHECKING:
    from .pool._active_pass import ActivePass, Chunk
    from .pool._dispatcher import Dispatcher
    from .worker._task_handler import TaskHandler
    from .worker._worker_options import WorkerOptions

__all__ = ["ParallelMap"]


class ParallelMap(ParallelFlow):
    """Calls the function of a `MapData` in workers; see `MultiProcessMapData`.

    Args:
        mapped: the map, for this flow alone.
        num_workers: number of workers, or "auto".
        options: the options of the workers.
    """

    _reads_here = True

    def __init__(self, mapped: MapData, num_workers: int | str, options: WorkerOptions) -> None:
        """Makes a map that may skip datapoints one that drops; starts nothing."""
        super().__init__(mapped, num_workers, options)
        if options.on_error == "skip":
            mapped._expect_drops()

    def _name(self) -> str:
        return f"{type(self).__name__.removesuffix('MapData')}{self.ds._name()}"

    def _handler(self) -> TaskHandler:
        from .worker._map_tasks import MapTaskHandler

        ours = self._map
        return MapTaskHandler(ours._func, ours._rng, self._options.on_error)

    def _read(self, epoch: Epoch, start: int, stop: int | None) -> Iterator[Any]:
        ours = self._map
        log, ordered = self._delivery_log(epoch, start, stop)
        dispatcher = self._dispatcher(log.start, stop, ordered, log.done)
        this = self._pass(epoch, dispatcher, log.start)
        counts = ErrorCounts()
        replay = Replay(self._name(), epoch, start - log.of_map.given)
        for chunk in self._running_pool(epoch).chunks(this):
            result = chunk.result
            epoch.marks.update(log.enter(result))
            counts.add(result)
            datapoints = chunk.open(self._read_only)
            del chunk
            if ours._drops:  # another iterator may have discovered the drop
                epoch.marks[epoch.key] = log.of_map
            for datapoint in drain(datapoints):
                if datapoint is None and not ours._drops:
                    ours._warn_unexpected_drop(epoch, start)
                    epoch.marks[epoch.key] = log.of_map
                if log.step(datapoint is None):
                    yield datapoint
                elif datapoint is not None:
                    replay.drop()
                del datapoint
            log.leave(result)
            if result.failure is not None:
                self._raise(result.failure, self.ds)
        epoch.marks.update(this.source_marks)
        counts.log(self)

    def _pass(
        self,
        epoch: Epoch,
        dispatcher: Dispatcher[Chunk],
        first: int,
        arrange: Callable[[Iterator[Any]], Iterator[Any]] | None = None,
    ) -> ActivePass:
        """Makes a pass over the datapoints below from `first` on, or over groups of them."""
        from .pool._active_pass import ActivePass
        from .worker._task_handler import PassSpec

        place = self._map._below(epoch)
        # Separate marks, because it reads ahead; the consumer's marks follow when it reaches that point.
        marks = as_lists(place.marks)
        for own in (epoch.key, own_key(epoch)):  # this flow's marks, which no result may reset
            marks.pop(own, None)
        below = Epoch(place, place.seed, place.path, marks, place.outer_epoch)
        steady = is_steady(self._map.ds)
        source = self._map.ds._datapoints(below, first)
        if arrange is not None:
            source, steady = arrange(source if steady else map(snapshot, source)), True
        spec = PassSpec.of(epoch, None)
        return ActivePass(spec, dispatcher, source=source, source_marks=below.marks, steady=steady)

    @property
    def _map(self) -> MapData:
        ours = self.ds
        assert isinstance(ours, MapData)
        return ours

    def _delivery_log(self, epoch: Epoch, start: int, stop: int | None) -> tuple[MapDeliveryLog, bool]:
        """Returns the log of the pass so far, and whether the pass continues in order."""
        ours = self._map
        if (
            not self._options.ordered
            and stop is None
            and (not ours._drops or UnorderedMapLog.knows(epoch, start))
        ):
            return UnorderedMapLog(epoch, start), False
        # The number of inputs for the given datapoints is unknown: only order identifies the next ones.
        if ours._drops:
            return OrderedMapLog(FilterMark.before(epoch, start), start), True
        return OrderedMapLog(FilterMark(epoch.outer_epoch, int(epoch), start, start), start), True
