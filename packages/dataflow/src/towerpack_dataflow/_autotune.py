"""How many worker processes a flow is worth; arithmetic on measurements, which are made elsewhere."""

from __future__ import annotations

import os
from math import ceil
from pathlib import Path
from typing import NamedTuple

# What a datapoint costs on its way from a worker, on both sides together; measured, and rounded up.
_SECONDS_TO_SEND = 3e-6
_BYTES_PER_SECOND = 5e9
_WORKER_BYTES = 50 * 2**20  # an interpreter with NumPy
_AHEAD = 4  # datapoints that a worker has under way
_WORTH_IT = 3  # work that takes less than so many times its sending stays where it is


class Suggestion(NamedTuple):
    """A number of workers, and the reason for it; as text, a line for people.

    Example:
        >>> print(Suggestion(2, "one for each processor"))
        2 workers: one for each processor
    """

    workers: int
    reason: str

    def __str__(self) -> str:
        """The line."""
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
    """The smallest number of workers that makes a flow as fast as it can be.

    Args:
        seconds: time to make a datapoint, in one process.
        size: its bytes.
        computing: fraction of `seconds` spent on a processor, not waiting for files or network.
        consumer: seconds that the consumer needs for a datapoint: a training step, flows above the workers.
            Making datapoints faster than that is no use.
        cpus: processors that the workers may use together; all that this process may, by default.
        memory: bytes that they may use together.

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
            0, f"a datapoint takes {duration(seconds)} to make, and about {duration(sending)} to send"
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


def available_cpus() -> float:
    """Processors that this process may use, by its affinity and by its control group's quota."""
    affinity = getattr(os, "sched_getaffinity", None)
    cpus = float(len(affinity(0)) if affinity else os.cpu_count() or 1)
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
    except (OSError, ValueError):
        return cpus
    return cpus if quota == "max" else max(min(cpus, int(quota) / int(period)), 1.0)


def duration(seconds: float) -> str:
    """Seconds as text, in ms or us."""
    return f"{1e3 * seconds:.1f} ms" if seconds >= 1e-3 else f"{1e6 * seconds:.1f} us"
