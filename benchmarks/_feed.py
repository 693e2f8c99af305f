"""The common parts of the subjects of `loaders.py`: how batches are consumed and measured, and our loader."""

from __future__ import annotations

import functools
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import _rounds
from _loaders import Figures, Run, cpu_seconds, register

FOLDER = Path(os.environ.get("BENCHMARK_FOLDER", "."))  # with the data, which loaders.py has written
LONGEST = _rounds.shorter(40) / 10  # seconds of a measurement
SUBJECTS: dict[str, dict[str, Callable[[], Run]]] = {}

subject = functools.partial(register, SUBJECTS)


def our_loader(flow: Any, **options: Any) -> Any:
    """Our loader for PyTorch; a short run without PyTorch reads the flow by the same workers."""
    try:
        from towerpack_dataflow.interop.torch import DataLoader
    except ImportError:
        if not _rounds.SMOKE:
            raise
        from towerpack_dataflow import MultiProcessRunner, ShardData

        print("PyTorch is not installed: the flow is read without it", file=sys.stderr)
        rank, size = options.pop("rank", 0), options.pop("world_size", 1)
        return MultiProcessRunner(ShardData(flow, rank, size), **options)
    return DataLoader(flow, **options)


def forever(batches: Iterable[Any]) -> Iterator[Any]:
    """One pass after another of what can be iterated repeatedly."""
    while True:
        yield from batches


def fed(stream: Iterable[Any], consume: Callable[[Any], int], count: int, skip: int = 10) -> Run:
    """Measures an endless stream of batches.

    Each time `skip` batches are taken first, which may lie ready; then `count` are measured, or those of
    `LONGEST` seconds. CPU time and memory are those of this process, with the consumer, and of all that
    descend from it; memory is the proportional set size at the end, in which shared pages count once.

    Args:
        stream: the batches.
        consume: uses a batch, and returns the number of its items.
        count: number of batches.
        skip: number of batches that are not measured.
    """
    iterator = iter(stream)
    skip, count = _rounds.shorter(skip), _rounds.shorter(count, 2)

    def run() -> Figures:
        for _ in range(skip):
            consume(next(iterator))
        items, taken, seconds = 0, 0, 0.0
        cpu, begin = cpu_seconds(), time.perf_counter()
        while taken < count and seconds < LONGEST:
            items += consume(next(iterator))
            taken += 1
            seconds = time.perf_counter() - begin
        used = cpu_seconds() - cpu
        return {"rate": items / seconds, "cpu_us_per_item": 1e6 * used / items, "MB": memory()}

    return run


def memory() -> float:
    """The proportional set size of this process and of all that descend from it, in MB."""
    import psutil

    me = psutil.Process()
    return sum(process.memory_full_info().pss for process in [me, *me.children(recursive=True)]) / 1e6
