"""`BaseLoader`: batches of a flow for one rank, with a position that fits any number of ranks and workers."""

from __future__ import annotations

import threading
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping
from queue import Empty, Full, Queue
from typing import Any, NamedTuple, Self, final

from .. import _argument_checks as arguments
from .._errors import ArgumentError, ComponentError
from ..batch._batch_data import BatchData
from ..flow._flow import DataFlow
from ..flow._flow_state import position_of, set_root_seed
from ..flow._tree_fingerprint import known_length
from ..flow._written_flow import is_steady
from ..runtime._multi_process import MultiProcessRunner
from ..runtime._parallel_flow import flows_read_here
from ..storage import snapshot
from ._even_shard import EvenShard

__all__ = ["BaseLoader", "LoaderOptions", "ReadAhead"]

_INTERVAL = 0.1  # seconds after which a thread with a full queue checks whether it is still needed


@final
class ReadAhead(Iterator[Any]):
    """Yields the items of an iterator, which another thread reads; `close()` ends the thread.

    Args:
        items: the iterator; only that thread uses it.
        depth: number of items that are ready before the consumer takes them.
    """

    def __init__(self, items: Iterator[Any], depth: int) -> None:
        """Starts the thread."""
        self._queue: Queue[tuple[bool, Any]] = Queue(depth)
        self._stop = threading.Event()
        self._ended = False
        arguments = (items, self._queue, self._stop)  # not `self`, which would live as long as the thread
        self._thread = threading.Thread(target=_read, args=arguments, name="read ahead", daemon=True)
        self._thread.start()

    def __next__(self) -> Any:
        """Returns the next item, or raises the error of the iterator at its place."""
        if self._ended:
            raise StopIteration
        going_on, item = self._queue.get()
        if going_on:
            return item
        self._ended = True
        self._thread.join()
        if item is None:
            raise StopIteration
        raise item

    def close(self) -> None:
        """Ends the thread, after the item that it is reading, and drops the items in the queue."""
        self._ended = True
        self._stop.set()
        while self._thread.is_alive():
            _clear(self._queue)
            self._thread.join(_INTERVAL)
        _clear(self._queue)

    def __del__(self) -> None:
        self._stop.set()


def _read(items: Iterator[Any], queue: Queue[tuple[bool, Any]], stop: threading.Event) -> None:
    try:
        for item in items:
            _put(queue, (True, item), stop)
            del item  # its memory is for the next one
            if stop.is_set():
                break
        end: tuple[bool, Any] = (False, None)
    except BaseException as error:  # the consumer raises it
        end = (False, error)
    if stop.is_set() and (close := getattr(items, "close", None)) is not None:
        close()
    _put(queue, end, stop)


def _put(queue: Queue[tuple[bool, Any]], item: tuple[bool, Any], stop: threading.Event) -> None:
    while not stop.is_set():
        try:
            queue.put(item, timeout=_INTERVAL)
            return
        except Full:
            continue


def _clear(queue: Queue[tuple[bool, Any]]) -> None:
    try:
        while True:
            queue.get_nowait()
    except Empty:
        pass


_DEPTH = 2  # batches that are prepared ahead of the consumer


@final
class LoaderOptions(NamedTuple):
    """The arguments that all loaders share; `interop.torch.DataLoader` describes them."""

    num_workers: int | str
    rank: int | None
    world_size: int | None
    even: str
    seed: int | None
    timeout: float | None
    start_method: str | None
    worker_init_fn: Callable[[int], Any] | None
    prefetch_bytes: int


@final
class _Pipeline(NamedTuple):
    """The flow of one rank, and the workers above it."""

    share: EvenShard
    runner: MultiProcessRunner


class BaseLoader(ABC):
    """Yields the batches of one rank; abstract.

    Args:
        flow: the flow of all ranks.
        options: the other arguments.

    Raises:
        ArgumentError: an option has an invalid value.
    """

    _reads_ahead = False  # whether another thread prepares batches

    def __init__(self, flow: DataFlow, options: LoaderOptions) -> None:
        """Checks the arguments; starts nothing."""
        self._flow = flow
        if (options.rank is None) != (options.world_size is None):
            raise ArgumentError(
                f"rank={options.rank} and world_size={options.world_size}: pass both, or neither"
            )
        arguments.one_of("even", options.even, ("drop", "repeat", "error"))
        self._options = options
        if options.seed is not None:
            flow.seed(options.seed)
        self._ranks = self._current_ranks()
        self._pipeline = self._built((0, 0))
        self._started = False  # whether a datapoint of the current pass was requested
        self._resumed = False  # whether a state was loaded since
        self._seen: dict[str, Any] | None = None  # the position of the consumer, if a thread reads ahead

    def __bool__(self) -> bool:
        """Returns `True`, as for a flow."""
        return True

    def __len__(self) -> int:
        """Returns the number of batches of this rank in a whole pass.

        Raises:
            UnknownLengthError: the length is unknown; it is a `TypeError`.
        """
        return len(self._current().share)

    def __iter__(self) -> Iterator[Any]:
        """Prepares the next pass, or the rest of that of a loaded state; the first batch starts it."""
        return self._pass()

    def set_epoch(self, epoch: int) -> None:
        """Makes `epoch` the next pass, or the rest of it if a loaded state is within it.

        The loader counts passes; the call is only needed to repeat or skip some.

        Raises:
            ArgumentError: `epoch` is not an integer from 0 up.
        """
        number = arguments.count("epoch", epoch, least=0)
        state = self._current().runner.state_dict()
        if "epoch" not in state or (state["epoch"] == number and not self._started):
            return
        state.pop("marks", None)
        self._current().runner.load_state_dict({**state, "epoch": number, "index": 0})
        self._began_at(resumed=False)

    def state_dict(self) -> dict[str, Any]:
        """Returns the position of the next batch that no rank has taken yet, and the seed.

        All ranks have the same state after the same number of batches, so one of them can save it for all.
        It fits any number of ranks and workers, and is ready for JSON. It is also a state of the flow.
        """
        pipeline = self._current()
        state = pipeline.runner.state_dict() if self._seen is None else dict(self._seen)
        return _of_all_ranks(state, pipeline.share)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Makes the next pass start where `state` was taken, with the seeds of that time.

        Raises:
            ArgumentError: with `even="error"`, the rest of the pass does not suffice for all ranks alike.
            StateError: `state` is not a state, or belongs to another flow. Nothing is changed.
        """
        pipeline = self._current()
        begun = _begun(state)
        if begun is None:
            pipeline.runner.load_state_dict(state)  # of a live flow, or it raises an error
        elif begun[1] % self._ranks[1] or pipeline.share.rest_begin:
            other = self._built(begun)
            other.runner.load_state_dict({**state, "index": other.share.rest_begin})
            self._pipeline = other
            pipeline.runner.close()
        else:
            pipeline.runner.load_state_dict({**state, "index": begun[1] // self._ranks[1]})
        self._began_at(resumed=True)

    def close(self) -> None:
        """Ends the workers. Batches already yielded stay valid, and the next pass starts new workers."""
        self._pipeline.runner.close()

    def __enter__(self) -> Self:
        """Returns this loader."""
        return self

    def __exit__(self, *error: object) -> None:
        """Ends the workers."""
        self.close()

    @abstractmethod
    def _detected_ranks(self) -> tuple[int, int]:
        """Returns the rank of this process, and the number of processes, according to the framework."""

    @abstractmethod
    def _converted(self, datapoint: Any) -> Any:
        """Converts the arrays of a datapoint; called in another thread if the loader reads ahead."""

    def _delivered(self, batch: Any) -> Any:
        """Finishes a batch in the thread of the consumer."""
        return batch

    def _current_ranks(self) -> tuple[int, int]:
        rank, size = self._options.rank, self._options.world_size
        if rank is None or size is None:
            rank, size = self._detected_ranks()
        if size > 1 and self._flow.sharded:
            raise ArgumentError(
                f"the loader divides the flow among {size} ranks, but {self._flow._name()} yields the share "
                "of one host already (ShardData); remove it, or pass rank=0 and world_size=1"
            )
        return rank, size

    def _current(self) -> _Pipeline:
        """Returns the pipeline; builds it again if the framework has started ranks in the meantime."""
        ranks = self._current_ranks()
        if ranks != self._ranks:
            if self._started:
                raise ArgumentError(
                    f"the loader began as rank {self._ranks[0]} of {self._ranks[1]}, and this process is now "
                    f"rank {ranks[0]} of {ranks[1]}; create the loader after the process group"
                )
            state = _of_all_ranks(self._pipeline.runner.state_dict(), self._pipeline.share)
            self._ranks = ranks
            self._pipeline = self._built((0, 0))
            self.load_state_dict(state)
        return self._pipeline

    def _built(self, begun: tuple[int, int]) -> _Pipeline:
        options = self._options
        share = EvenShard(self._flow, *self._ranks, even=options.even, begun=begun)
        runner = MultiProcessRunner(
            share,
            options.num_workers,
            timeout=options.timeout,
            start_method=options.start_method,
            worker_init_fn=options.worker_init_fn,
            prefetch_bytes=options.prefetch_bytes,
        )
        set_root_seed(runner, 0)  # as in a shard: without a seed, all ranks divide the same order
        return _Pipeline(share, runner)

    def _began_at(self, *, resumed: bool) -> None:
        self._started, self._resumed, self._seen = False, resumed, None

    def _pass(self) -> Iterator[Any]:
        resumed = self._resumed
        count = yield from self._batches()
        if resumed and not count:  # the state was taken after the last batch of a pass of unknown length
            yield from self._batches()

    def _batches(self) -> Generator[Any, None, int]:
        """Yields the batches of a pass; returns their number."""
        pipeline = self._current()
        expected = known_length(pipeline.share)
        position = position_of(pipeline.runner)
        if expected is not None and not position.started:
            expected -= position.index
        self._started, self._resumed = True, False
        count = 0
        for batch in self._ahead(pipeline) if self._reads_ahead else self._on_demand(pipeline):
            count += 1
            yield batch
            del batch  # its memory is for the next one
        self._began_at(resumed=False)
        if expected is not None and count != expected:
            warnings.warn(
                f"the length of {self._flow._name()} is wrong: a pass had {count} batches, and len() says "
                f"{expected}. Ranks that trust it wait for each other for ever; correct __len__ of the data",
                stacklevel=2,
            )
        return count

    def _on_demand(self, pipeline: _Pipeline) -> Iterator[Any]:
        for datapoint in self._own(pipeline):
            batch = self._checked(datapoint, pipeline)
            del datapoint
            yield self._delivered(batch)
            del batch

    def _ahead(self, pipeline: _Pipeline) -> Iterator[Any]:
        ahead = ReadAhead(self._prepared(pipeline), _DEPTH)
        try:
            for batch, state in ahead:
                self._seen = state
                yield self._delivered(batch)
                del batch
        finally:
            ahead.close()

    def _prepared(self, pipeline: _Pipeline) -> Iterator[tuple[Any, dict[str, Any]]]:
        for datapoint in self._own(pipeline):
            yield self._checked(datapoint, pipeline), pipeline.runner.state_dict()
            del datapoint

    def _own(self, pipeline: _Pipeline) -> Iterator[Any]:
        """Yields datapoints with arrays that nothing else writes to, and that the consumer may write to."""
        runner = pipeline.runner
        if pipeline.share not in flows_read_here(runner) or _has_own_arrays(pipeline.share):
            return iter(runner)
        return (snapshot(datapoint) for datapoint in runner)  # those of a list are the user's own arrays

    def _checked(self, datapoint: Any, pipeline: _Pipeline) -> Any:
        try:
            return self._converted(datapoint)
        except ComponentError as error:
            state = _of_all_ranks(pipeline.runner.state_dict(), pipeline.share)
            error.add_note(
                f"in the loader, before datapoint {state.get('index')} of pass {state.get('epoch')}"
            )
            raise


def _has_own_arrays(flow: DataFlow) -> bool:
    """Tells whether nothing else refers to the arrays of a flow: they are stacked, and no user code runs."""
    top = flow
    while top.effect.keeps_place and top.children():
        top = top.children()[0]
    return isinstance(top, BatchData) and not top._use_list and is_steady(flow)


def _of_all_ranks(state: dict[str, Any], share: EvenShard) -> dict[str, Any]:
    """Translates the state of one rank's share into a state of the flow that all ranks share."""
    if "index" not in state:  # of a live flow
        return state
    seeds = dict(state.pop("seeds", {}))
    state["seed"] = seeds.pop("", state["seed"])  # of the share itself: the flow has its place
    if seeds:
        state["seeds"] = seeds
    length = known_length(share)
    if length is not None and state["index"] >= length > 0:
        state.pop("marks", None)
        return {**state, "epoch": state["epoch"] + 1, "index": 0}
    return {**state, "index": share.yielded(state["epoch"], state["index"])}


def _begun(state: Any) -> tuple[int, int] | None:
    """Returns the pass of a state and the number of its datapoints that were yielded; `None` without them."""
    epoch, index = (state.get(name) if isinstance(state, Mapping) else None for name in ("epoch", "index"))
    if not (type(epoch) is type(index) is int) or epoch < 0 or index < 0:
        return None
    return epoch, index
