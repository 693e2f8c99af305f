"""`MultiProcessRunner` and `MultiProcessMapData`: flows with worker processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

from .. import _argument_checks as arguments
from ..operators._map_data import MapData
from ._parallel_map import ParallelMap
from ._parallel_runner import ParallelRunner
from .worker._worker_options import WorkerOptions

__all__ = ["MultiProcessMapData", "MultiProcessRunner"]


@final
class MultiProcessRunner(ParallelRunner):
    """Runs the flow below in worker processes and yields exactly its datapoints.

    Each datapoint comes once per pass, in the order and with the random numbers of the flow below, for any
    number of workers; states are the same too, so a run may resume with another number of workers. Arrays
    arrive as writable views of shared memory, which remain valid as long as the consumer keeps them.

    An addressable flow is divided among the workers dynamically. A stream can only be read in order: one
    worker reads it ahead of the consumer, and more would not help. To use more workers, put the work into
    `MultiProcessMapData`, which reads a stream in one place and calls the function in all workers.

    A `BatchData` at the top of `ds` is the fast way to make large batches: it writes each item directly into
    the consumer's memory.

    A function that takes its random numbers from `rng=True` gets those of the datapoint in any worker. The
    global generators of Python, NumPy, PyTorch and OpenCV are seeded in each worker, before `worker_init_fn`.
    A generator held by a function would be copied into each worker, which is logged as a warning.

    Workers are new interpreters that receive the flow by cloudpickle, start with the first pass, stay for all
    passes, and begin the next pass when the last one is done. No main guard is needed. Later changes to `ds`,
    other than by `seed()` and states, do not reach them. They end with the flow, with `close()`, or at the
    end of `with flow:`; the next pass then starts new ones.

    Args:
        ds: the flow below.
        num_workers: number of processes; "auto" for the number suggested by `autotune`; 0 for none, with the
            same datapoints made on demand in this process.
        ordered: `False` yields datapoints as soon as they are made; each still exactly once, also after
            resuming. The flow is then a stream, and its state lists the yielded datapoints; it fits a flow
            without order. A flow above that reads ahead without recording it, such as a custom shuffling
            buffer, or that resumes by repeating its pass, requires order below it.
        replicate: every worker runs the whole flow with a different seed, endlessly; datapoints are taken
            from each in turn, `len(ds)` per pass if it is known. This is the behaviour of Tensorpack's
            runners.
        prefetch_bytes: limit of the bytes made ahead of the consumer. The consumer may hold the same number
            of views; further arrays are copied.
        start_method: "spawn", "fork" for workers that inherit this process's memory, or "thread" as
            in `MultiThreadRunner`. By default "thread" on free-threaded builds of Python and on Windows,
            else "spawn".
        worker_init_fn: called in each worker with its number, before `ds` is reset there.
        on_error: the handling of a failing datapoint: "raise" its error here, "skip" the datapoint, or
            "retry" it, with three attempts in all. The last two need an addressable flow, and log skipped or
            repeated datapoints at the end of a pass.
        stall_warning: seconds without progress after which a warning names the busy workers; `None` for no
            warning.
        timeout: time limit of one datapoint in seconds. A datapoint that exceeds it is a
            `DatapointTimeoutError` there, or is handled by `on_error`; its worker is killed and replaced.
            With a limit, each datapoint is sent as a separate message, which costs some tens of microseconds.

    Raises:
        ArgumentError: an argument has an invalid value.
        SendError: the flow cannot be sent to a worker, while iterating; the text names the part.
        WorkerDiedError: a worker was killed, while iterating.
        DatapointTimeoutError: a datapoint took longer than `timeout`, while iterating.

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
        stall_warning: float | None = 60.0,
        timeout: float | None = None,
    ) -> None:
        """Checks the arguments; starts nothing."""
        replicate = arguments.flag("replicate", replicate)
        options = WorkerOptions(
            ordered=ordered,
            prefetch_bytes=prefetch_bytes,
            # Copies of a flow cannot share a state that it keeps from one datapoint to the next.
            start_method="spawn" if replicate and start_method is None else start_method,
            worker_init_fn=worker_init_fn,
            on_error=on_error,
            stall_warning=stall_warning,
            timeout=timeout,
        )
        super().__init__(ds, num_workers, options, replicate=replicate)


@final
class MultiProcessMapData(ParallelMap):
    """`MapData` that calls its function in worker processes; reads the flow below in this process.

    The datapoints are those of `MapData(ds, func)`: each once per pass, in order, with the same random
    numbers; `None` drops a datapoint. Use it for a flow that must stay in one process, because it is a stream
    or holds an open file. If `ds` is addressable, a `MultiProcessRunner` over `MapData(ds, func)` avoids
    sending the inputs to the workers.

    Args:
        ds: the flow below.
        num_workers: number of processes, "auto" or 0, as in `MultiProcessRunner`.
        func: as in `MapData`. With `on_error="retry"` it may receive the same object again.
        rng: as in `MapData`.
        drops: as in `MapData`.
        ordered: as in `MultiProcessRunner`: `False` yields the first available datapoint.
        prefetch_bytes: as in `MultiProcessRunner`.
        start_method: as in `MultiProcessRunner`.
        worker_init_fn: as in `MultiProcessRunner`.
        on_error: "raise", "skip" (as if the function had returned `None`) or "retry", with three attempts in
            all.
        stall_warning: as in `MultiProcessRunner`.
        timeout: as in `MultiProcessRunner`.

    Raises:
        ArgumentError: an argument has an invalid value.
        SendError: the function or a datapoint cannot be sent, while iterating; the text names the part.
        WorkerDiedError: a worker was killed, while iterating.
        DatapointTimeoutError: a datapoint took longer than `timeout`, while iterating.

    Example:
        >>> list(MultiProcessMapData([[1], [2], [3]], 2, lambda dp: [dp[0] * 10]))
        [[10], [20], [30]]
    """

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
        stall_warning: float | None = 60.0,
        timeout: float | None = None,
    ) -> None:
        """Checks the arguments; starts nothing."""
        options = WorkerOptions(
            ordered=ordered,
            prefetch_bytes=prefetch_bytes,
            start_method=start_method,
            worker_init_fn=worker_init_fn,
            on_error=on_error,
            stall_warning=stall_warning,
            timeout=timeout,
        )
        super().__init__(MapData(ds, func, rng=rng, drops=drops), num_workers, options)
