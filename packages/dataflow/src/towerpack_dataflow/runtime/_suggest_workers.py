"""Suggests a number of workers for a flow."""

from __future__ import annotations

import os
import pickle
from itertools import islice
from math import ceil
from time import perf_counter, thread_time
from typing import NamedTuple, final

from .._errors import ArgumentTypeError
from ..flow._columns import datapoint_size, duration
from ..flow._epoch import Epoch
from ..flow._flow import DataFlow
from ..storage import SharedListPickle, dump_by_value

__all__ = ["Suggestion", "autotune", "available_cpus", "suggest_workers"]

# The cost of sending a datapoint from a worker, on both sides together; measured, and rounded up.
_SECONDS_TO_SEND = 3e-6
_BYTES_PER_SECOND = 5e9
_WORKER_BYTES = 50 * 2**20  # an interpreter with NumPy
_AHEAD = 4  # datapoints in progress per worker
_QUOTA = "/sys/fs/cgroup/cpu.max"
_WORTH_IT = 3  # multiple of the cost of sending; the consumer makes cheaper datapoints itself
_SECONDS_TO_MEASURE = 0.3
_MOST_TO_MEASURE = 20_000


@final
class Suggestion(NamedTuple):
    """A number of workers, and the reason for it; its text is one readable line.

    Example:
        >>> print(Suggestion(2, "one for each processor"))
        2 workers: one for each processor
    """

    workers: int
    reason: str

    def __str__(self) -> str:
        """Returns the line."""
        number = {0: "no workers", 1: "1 worker"}.get(self.workers, f"{self.workers} workers")
        return f"{number}: {self.reason}"


def suggest_workers(
    seconds: float,
    size: float,
    *,
    computing: float = 1.0,
    consumer: float = 0.0,
    cpus: float | None = None,
    memory: float = 2**30,
) -> Suggestion:
    """Suggests the smallest number of workers that maximizes the speed of a flow.

    Args:
        seconds: time to make a datapoint, in one process.
        size: bytes of a datapoint.
        computing: fraction of `seconds` spent on a processor, not waiting for files or network.
        consumer: seconds per datapoint that the consumer takes: a training step, flows above the workers.
            Making datapoints faster than that is useless.
        cpus: processors that the workers may use together; all those of this process by default.
        memory: bytes that the workers may use together.

    Example:
        >>> print(suggest_workers(0.010, 1e6, consumer=0.004, cpus=16))
        3 workers: enough for a consumer that takes 4.0 ms for a datapoint
        >>> print(suggest_workers(0.010, 1e6, computing=0.25, cpus=2))
        8 workers: as many as 2 processors can serve
    """
    cpus = available_cpus() if cpus is None else cpus
    sending = _SECONDS_TO_SEND + size / _BYTES_PER_SECOND
    if seconds <= _WORTH_IT * sending:
        return Suggestion(
            0, f"a datapoint takes {duration(seconds)} to make and about {duration(sending)} to send"
        )
    served = ceil(cpus / max(computing, 0.05) - 1e-9)
    limits = [
        (ceil(seconds / sending), "more could not be received in time"),
        (max(served, 1), f"as many as {cpus:g} processor{'s' * (cpus != 1)} can serve"),
        (max(int(memory / (_WORKER_BYTES + _AHEAD * size)), 1), f"more would use over {memory / 1e6:.0f} MB"),
    ]
    if consumer > sending:
        enough = f"enough for a consumer that takes {duration(consumer)} for a datapoint"
        limits.insert(0, (max(ceil(seconds / consumer - 1e-9), 1), enough))
    return Suggestion(*min(limits, key=lambda limit: limit[0]))


def autotune(
    flow: DataFlow, *, consumer: float = 0.0, cpus: float | None = None, memory: float = 2**30
) -> Suggestion:
    """Suggests a number of workers for `flow`, by making some datapoints of a copy of it in this process.

    Takes a third of a second, or a few datapoints. `num_workers="auto"` of the parallel flows uses this
    function with the default budgets, and at least one worker.

    Args:
        flow: the flow for the workers; it is not changed.
        consumer: seconds per datapoint that the consumer takes.
        cpus: processors that the workers may use together; all those of this process by default.
        memory: bytes that the workers may use together.

    Raises:
        ArgumentTypeError: `flow` is not a flow.

    Example:
        >>> from towerpack_dataflow import DataFromList, MapData
        >>> print(autotune(MapData(DataFromList(range(1000)), float)))  # doctest: +ELLIPSIS
        no workers: a datapoint takes ...
    """
    if not isinstance(flow, DataFlow):
        raise ArgumentTypeError(
            f"autotune takes a DataFlow and makes some of its datapoints; received {type(flow).__name__}"
        )
    copied = _copy(flow)
    sample = None if copied is None else _measured(copied)
    if sample is None:  # nothing was measured; use all processors
        count = max(int(available_cpus() if cpus is None else cpus), 1)
        return Suggestion(count, "one per processor, since this flow cannot be measured")
    seconds, computing, size = sample
    return suggest_workers(seconds, size, computing=computing, consumer=consumer, cpus=cpus, memory=memory)


def _copy(flow: DataFlow) -> DataFlow | None:
    """Copies a flow, if possible, so that reading it opens no files and changes no state of the original."""
    lists = SharedListPickle()
    try:
        with lists.packing():
            copied: DataFlow = pickle.loads(dump_by_value(flow))
    except Exception:  # any error from pickling user objects
        return None
    finally:
        lists.close()
    return copied


def _measured(flow: DataFlow) -> tuple[float, float, float] | None:
    """Returns the seconds per datapoint, the fraction spent computing, and the bytes."""
    flow.reset_state()
    datapoints = flow._datapoints(Epoch(0), 0)
    first = next(datapoints, None)  # opens files, imports modules: not typical
    count, size = 0, datapoint_size(first)
    begin, computed = perf_counter(), thread_time()
    seconds = 0.0
    for datapoint in islice(datapoints, _MOST_TO_MEASURE):
        count += 1
        size += datapoint_size(datapoint)
        del datapoint
        seconds = perf_counter() - begin
        if seconds > _SECONDS_TO_MEASURE:
            break
    if not count:
        return None
    return seconds / count, min((thread_time() - computed) / max(seconds, 1e-9), 1.0), size / (count + 1)


def available_cpus(quota_file: str | os.PathLike[str] = _QUOTA) -> float:
    """Returns the processors that this process may use, by its affinity and the quota of its control group.

    Args:
        quota_file: quota file of the control group.
    """
    affinity = getattr(os, "sched_getaffinity", None)
    cpus = float(len(affinity(0)) if affinity else os.cpu_count() or 1)
    try:
        with open(quota_file) as file:
            quota, period = file.read().split()
    except (OSError, ValueError):
        return cpus
    return cpus if quota == "max" else max(min(cpus, int(quota) / int(period)), 1.0)
