"""`MultiProcessRunner` and `MultiProcessMapData`: work done by other processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

from .. import _argument_checks as arguments
from ._parallel_map import ParallelMap
from ._parallel_runner import ParallelRunner

__all__ = ["MultiProcessMapData", "MultiProcessRunner"]


@final
class MultiProcessRunner(ParallelRunner):
    """Runs the flow below in worker processes, and gives exactly its datapoints.

    Each datapoint comes once a pass, in the order and with the random numbers of the flow below alone, for
    any number of workers; states are the same too, so a run may go on with another number of workers. Arrays
    arrive as views of shared memory, writable, which belong to the consumer for as long as it keeps them.

    An addressable flow is divided among the workers as they have time. A stream can only be read in order:
    one worker does that, ahead of the consumer, and more would not help. To use more, put the work into
    `MultiProcessMapData`, which reads a stream in one place and calls the function in many.

    A `BatchData` at the top of `ds` is the fast way to make large batches: it writes each item where the
    consumer will read it.

    A function that takes its random numbers from `rng=True` has those of the datapoint in any worker. The
    global generators of Python, NumPy, PyTorch and OpenCV are seeded in each worker, before `worker_init_fn`.
    A generator that a function holds would be copied into each worker, which is logged as a warning.

    Workers are fresh interpreters that get the flow by cloudpickle, start with the first pass, stay for all,
    and begin the next pass when the one before is done. No main guard is needed. What is changed in `ds` from
    outside after that start, other than by `seed()` and states, does not reach them. They end with the flow,
    or by `close()`, or at the end of `with flow:`; the next pass starts new ones then.

    Args:
        ds: the flow below.
        num_workers: how many processes; "auto" for as many as `autotune` suggests; 0 for none, and the same
            datapoints made in this one, each when it is wanted.
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
            "retry" it, three times in all. The last two need an addressable flow, and log at the end of a
            pass what was left out or repeated.
        stall_warning: seconds without progress after which a warning names the busy workers; `None` for no
            warning.
        timeout: seconds that one datapoint may take. One that takes longer is a `DatapointTimeoutError`
            there, or is treated as `on_error` says; its worker is killed, and a new one takes its place. With
            a limit, each datapoint is a message of its own, which costs some tens of microseconds.

    Raises:
        ArgumentError: an argument has a value that cannot work.
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
        super().__init__(
            ds,
            num_workers,
            replicate=replicate,
            ordered=ordered,
            prefetch_bytes=prefetch_bytes,
            # Copies of a flow cannot share a state that it keeps from one datapoint to the next.
            start_method="spawn" if replicate and start_method is None else start_method,
            worker_init_fn=worker_init_fn,
            on_error=on_error,
            stall_warning=stall_warning,
            timeout=timeout,
        )

    def _name(self) -> str:
        return f"MultiProcessRunner({self._asked_for})"


@final
class MultiProcessMapData(ParallelMap):
    """`MapData` whose function is called in worker processes; the flow below is read in this one.

    The datapoints are those of `MapData(ds, func)`: each once a pass, in order, with the same random numbers,
    and `None` drops. Use it for a flow that must stay in one place, because it is a stream or holds an open
    file. Where `ds` is addressable, a `MultiProcessRunner` over `MapData(ds, func)` saves the way of the
    inputs to the workers.

    Args:
        ds: the flow below.
        num_workers: how many processes, "auto" or 0, as in `MultiProcessRunner`.
        func: as in `MapData`. With `on_error="retry"` it may see the same object again.
        rng: as in `MapData`.
        drops: as in `MapData`.
        ordered: as in `MultiProcessRunner`: `False` gives what is ready first.
        prefetch_bytes: as in `MultiProcessRunner`.
        start_method: as in `MultiProcessRunner`.
        worker_init_fn: as in `MultiProcessRunner`.
        on_error: "raise", "skip" (as if the function had returned `None`) or "retry", three times in all.
        stall_warning: as in `MultiProcessRunner`.
        timeout: as in `MultiProcessRunner`.

    Raises:
        ArgumentError: an argument has a value that cannot work.
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
        """Puts `func` over `ds`; starts nothing."""
        super().__init__(
            ds,
            num_workers,
            func,
            rng=rng,
            drops=drops,
            ordered=ordered,
            prefetch_bytes=prefetch_bytes,
            start_method=start_method,
            worker_init_fn=worker_init_fn,
            on_error=on_error,
            stall_warning=stall_warning,
            timeout=timeout,
        )

    def _name(self) -> str:
        return f"MultiProcess{self.ds._name()}"
