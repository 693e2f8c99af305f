"""`MultiThreadRunner` and `MultiThreadMapData`: flows with threads of this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

from ..operators._map_data import MapData
from ._parallel_map import ParallelMap
from ._parallel_runner import ParallelRunner
from .worker._worker_options import WorkerOptions

__all__ = ["MultiThreadMapData", "MultiThreadRunner"]


@final
class MultiThreadRunner(ParallelRunner):
    """`MultiProcessRunner` with threads: for work that releases the interpreter's lock.

    Decoding images, decompressing and reading files release it; loops in Python do not, unless the build is
    free-threaded. Nothing is sent, so the flow may hold any objects, and starting is free. Arrays that the
    flow still references are copied, since it may write to them later; other arrays are not. All threads
    share the flow: if it is addressable, its `datapoint()` and the functions in it are called from several
    threads at the same time.

    Args:
        ds: the flow below.
        num_threads: number of threads; 0 as in `MultiProcessRunner`.
        ordered: as in `MultiProcessRunner`.
        prefetch_bytes: limit of the bytes made ahead of the consumer.
        on_error: as in `MultiProcessRunner`.
        stall_warning: as in `MultiProcessRunner`.
        timeout: as in `MultiProcessRunner`.

    Raises:
        ArgumentError: an argument has an invalid value.

    Example:
        >>> from towerpack_dataflow import DataFromList, MapData
        >>> flow = MapData(DataFromList(list(range(4)), shuffle=False), lambda number: [number * 10])
        >>> list(MultiThreadRunner(flow, num_threads=2))
        [[0], [10], [20], [30]]
    """

    def __init__(
        self,
        ds: Any,
        num_threads: int,
        *,
        ordered: bool = True,
        prefetch_bytes: int = 2**28,
        on_error: str = "raise",
        stall_warning: float | None = 60.0,
        timeout: float | None = None,
    ) -> None:
        """Checks the arguments; starts nothing."""
        options = WorkerOptions(
            ordered=ordered,
            prefetch_bytes=prefetch_bytes,
            on_error=on_error,
            stall_warning=stall_warning,
            timeout=timeout,
            start_method="thread",
        )
        super().__init__(ds, num_threads, options)
        self._num_threads = num_threads


@final
class MultiThreadMapData(ParallelMap):
    """`MultiProcessMapData` with threads: for functions that release the interpreter's lock.

    Args:
        ds: the flow below; read by one thread at a time.
        num_threads: number of threads; 0 as in `MultiProcessRunner`.
        func: as in `MapData`; called from several threads at the same time.
        rng: as in `MapData`.
        drops: as in `MapData`.
        ordered: as in `MultiProcessRunner`.
        prefetch_bytes: limit of the bytes made ahead of the consumer.
        on_error: as in `MultiProcessMapData`.
        stall_warning: as in `MultiProcessRunner`.
        timeout: as in `MultiProcessRunner`.

    Raises:
        ArgumentError: an argument has an invalid value.

    Example:
        >>> list(MultiThreadMapData([[1], [2], [3]], 2, lambda dp: [dp[0] * 10]))
        [[10], [20], [30]]
    """

    def __init__(
        self,
        ds: Any,
        num_threads: int,
        func: Callable[..., Any],
        *,
        rng: bool = False,
        drops: bool = False,
        ordered: bool = True,
        prefetch_bytes: int = 2**28,
        on_error: str = "raise",
        stall_warning: float | None = 60.0,
        timeout: float | None = None,
    ) -> None:
        """Checks the arguments; starts nothing."""
        options = WorkerOptions(
            ordered=ordered,
            prefetch_bytes=prefetch_bytes,
            on_error=on_error,
            stall_warning=stall_warning,
            timeout=timeout,
            start_method="thread",
        )
        super().__init__(MapData(ds, func, rng=rng, drops=drops), num_threads, options)
        self._num_threads = num_threads
