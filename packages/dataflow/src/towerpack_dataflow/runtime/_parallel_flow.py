"""`ParallelFlow`: the base of all flows with workers."""

from __future__ import annotations

import logging
import threading
import weakref
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn, Self, final

from .. import _argument_checks as arguments
from .._errors import ArgumentError, UnknownLengthError
from ..flow._epoch import Epoch
from ..flow._flow import DataFlow
from ..flow._node import Effect
from ..operators._proxy_flow import ProxyDataFlow
from ._suggest_workers import autotune

if TYPE_CHECKING:
    from .pool._active_pass import Chunk, Pool
    from .pool._dispatcher import Dispatcher
    from .transport._remote_errors import Failure
    from .worker._task_handler import TaskHandler, TaskResult
    from .worker._worker_options import WorkerOptions

__all__ = ["ErrorCounts", "ParallelFlow", "close_below", "flows_read_here"]

_log = logging.getLogger("towerpack_dataflow")

_WINDOW = 64  # ranges in progress per worker, so that one slow datapoint does not stop the others
_AHEAD = 2  # the fewest large datapoints ahead of those being made
_OWN = frozenset({"_read_only", "_starting", "_worker_pool"})


class ParallelFlow(ProxyDataFlow):
    """A flow with datapoints made by a pool of workers, which starts on first use.

    It takes no place in the tree: the flow below has the same random numbers with and without it.

    Args:
        ds: the flow below.
        num_workers: number of processes; 0 for none, with the same datapoints made in this process; "auto"
            for the number suggested by `autotune`, but at least one.
        options: the options of the workers.

    Raises:
        ArgumentError: `num_workers` has an invalid value, or contradicts an option.
    """

    effect = Effect(keeps_place=True)
    _worker_pool: Pool | None = None
    _read_only = False
    _work = 4e-3  # seconds of work that justify a message to a worker
    _reads_here = False  # whether this process reads the inputs, so that workers can share even a stream

    def __init__(self, ds: Any, num_workers: int | str, options: WorkerOptions) -> None:
        """Checks the number of workers; starts nothing."""
        super().__init__(ds)
        self._starting = threading.RLock()
        self._num_workers = (
            num_workers
            if isinstance(num_workers, str) and num_workers == "auto"
            else arguments.count("num_workers", num_workers, least=0, instead=', or "auto"')
        )
        self._options = options
        if options.timeout is not None and self._num_workers == 0:
            raise ArgumentError(
                f"timeout={options.timeout:g} needs workers: a datapoint made in this process cannot be "
                "interrupted; use num_workers=1, or timeout=None"
            )

    def __len__(self) -> int:
        """Returns the length of the flow below.

        Raises:
            UnknownLengthError: errors are skipped.
        """
        if self._options.on_error == "skip":
            raise UnknownLengthError._since(f"{self._name()} skips datapoints that fail")
        return super().__len__()

    @property
    def addressable(self) -> bool:
        """Whether `datapoint(epoch, index)` works: as below, if ordered and without skipped errors."""
        return self._options.ordered and self._options.on_error != "skip" and super().addressable

    @property
    def _worker_count(self) -> int:
        """Number of workers; determined on first use, when they start."""
        if not isinstance(self._num_workers, int):
            self._num_workers = self._tuned()
        return self._num_workers

    @property
    def _copied(self) -> bool:  # type: ignore[override]
        return self._worker_pool is not None and self._num_workers != 0

    def _tuned(self) -> int:
        if not (self.ds.addressable or self._reads_here):
            return 1
        suggestion = autotune(self.ds)
        _log.info("%s: %s", type(self).__name__, suggestion)
        return max(suggestion.workers, 1)

    @property
    def _in_process(self) -> bool:
        """Whether datapoints are made in this process: by threads, or without workers."""
        return self._options.start_method == "thread" or self._num_workers == 0

    def close(self) -> None:
        """Ends the workers of this flow and of those below it; does nothing without workers.

        Datapoints already yielded stay valid, and the next pass starts new workers. An iterator still in use
        raises `WorkerDiedError`. Without this call the workers end with the flow.
        """
        pool = self._worker_pool
        if pool is not None:
            pool.close()
        close_below(self)

    def __enter__(self) -> Self:
        """Returns this flow."""
        return self

    def __exit__(self, *error: object) -> None:
        """Ends the workers."""
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        """Returns the state of a copy, which starts its own workers and does not lend arrays yet."""
        return {key: value for key, value in super().__getstate__().items() if key not in _OWN}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restores the state of a copy."""
        vars(self).update(state)
        self._starting = threading.RLock()

    def lend_read_only(self) -> None:
        """Lends large arrays as read-only views of shared memory, from the next datapoint on.

        Up to four times `prefetch_bytes` of them may be held before more are copied: a queue is filled and
        emptied. Arrays made by threads are passed on without a copy, so the flow below then lends its own.
        """
        self._read_only = True
        if self._in_process:
            self.ds.lend_read_only()

    @abstractmethod
    def _handler(self) -> TaskHandler:
        """Builds the handler for the workers."""

    @abstractmethod
    def _read(self, epoch: Epoch, start: int, stop: int | None) -> Iterator[Any]:
        """Yields datapoints from `start` on, up to `stop` if set; `epoch` is that of the flow below."""

    def _datapoints(self, epoch: Epoch, start: int) -> Iterator[Any]:
        return self._read(self._below(epoch), start, None)

    def _datapoint(self, epoch: Epoch, index: int) -> Any:
        datapoints = self._read(self._below(epoch), index, index + 1)
        try:
            return next(datapoints, None)
        finally:
            datapoints.close()  # type: ignore[attr-defined]

    def _running_pool(self, epoch: Epoch) -> Pool:
        """Returns the pool; starts its workers if necessary."""
        with self._starting:  # several threads may start a pass at the same time
            pool = self._worker_pool
            if pool is None:
                pool = self._worker_pool = self._new_pool()
                weakref.finalize(self, pool.close)
            if not pool.running:
                handler = self._handler()
                handler.entropy = (epoch.seed, *epoch.path, epoch.outer_epoch, int(epoch))
                pool.start(handler)
            return pool

    @staticmethod
    def _raise(failure: Failure, flow: DataFlow) -> NoReturn:
        """Raises the error of a worker, as one of `flow` or of a flow below it."""
        from .transport._remote_errors import unpack_error

        raise unpack_error(failure, flow)

    def _new_pool(self) -> Pool:
        from .pool._active_pass import InlinePool
        from .pool._worker_pool import WorkerPool

        if self._worker_count == 0:
            return InlinePool()
        return WorkerPool(self._worker_count, self._options)

    def _dispatcher(
        self, start: int, stop: int | None, ordered: bool, done: Iterable[tuple[int, int]] = ()
    ) -> Dispatcher[Chunk]:
        from .pool._dispatcher import Dispatcher

        workers = max(self._worker_count, 1)
        # Only a datapoint with a separate task can be identified as the slow one; and without workers, no
        # datapoint is made before the consumer requests it.
        longest = 1 if self._options.timeout is not None or self._worker_count == 0 else None
        budget = self._options.prefetch_bytes
        return Dispatcher(
            start,
            stop,
            window=_WINDOW * workers,
            large=workers + max(workers, _AHEAD),
            budget=budget,
            ordered=ordered,
            done=done,
            longest=longest,
            work=self._work,
            contiguous=1 if longest else self._contiguous(),
        )

    def _contiguous(self) -> int:
        """Returns how many consecutive datapoints one worker should make."""
        return 1


def close_below(flow: DataFlow) -> None:
    """Ends the workers of all flows below `flow`."""
    for child in flow.children():
        if isinstance(child, ParallelFlow):
            child.close()
        else:
            close_below(child)


def flows_read_here(flow: DataFlow) -> list[DataFlow]:
    """Lists the flows that a pass over `flow` reads in this process, `flow` first.

    Flows below a `MultiProcessRunner` are excluded: its worker processes have copies. Flows below runners
    with threads, or without workers, are included.

    Args:
        flow: the flow at the top.

    Example:
        >>> from towerpack_dataflow import DataFromList, MultiProcessRunner, flows_read_here
        >>> source = DataFromList([1, 2])
        >>> [len(flows_read_here(MultiProcessRunner(source, workers))) for workers in (0, 1)]
        [2, 1]
    """
    found = {id(flow): flow}
    waiting = [flow]
    while waiting:
        reader = waiting.pop()
        if isinstance(reader, ParallelFlow) and not (reader._in_process or reader._reads_here):
            continue
        new = {id(child): child for child in reader.children() if id(child) not in found}
        found.update(new)
        waiting.extend(new.values())
    return list(found.values())


@final
class ErrorCounts:
    """Counts the errors that did not stop a pass."""

    def __init__(self) -> None:
        """Starts at zero."""
        self._retried = 0
        self._skipped = 0
        self._first: tuple[int, str] = (0, "")

    def add(self, result: TaskResult) -> None:
        """Counts the errors in a result."""
        self._retried += result.retried
        if result.skipped and not self._skipped:
            self._first = result.skipped[0]
        self._skipped += len(result.skipped)

    def log(self, flow: ParallelFlow) -> None:
        """Logs the counts that are not zero, at the end of the pass."""
        if self._skipped:
            _log.warning(
                "%s skipped %d datapoints of this pass because of errors; the first was datapoint %d: %s",
                flow._name(),
                self._skipped,
                *self._first,
            )
        if self._retried:
            _log.warning("%s retried %d times in this pass, after errors", flow._name(), self._retried)
