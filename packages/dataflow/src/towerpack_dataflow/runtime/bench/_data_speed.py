"""`TestDataSpeed`: measures the speed of a flow and of each flow below it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from math import inf
from time import perf_counter
from typing import Any, final

from ... import _argument_checks as arguments
from ..._errors import ArgumentError, EmptyFlowError
from ...flow._columns import datapoint_size
from ...flow._epoch import Epoch
from ...flow._flow_state import position_of
from ...flow._node import Effect
from ...flow._user_code import explain
from ...operators._proxy_flow import ProxyDataFlow
from .._spans import process_spans
from ._bottleneck import Diagnosis, SpeedResult, measured_stages, stage_spans, stage_timers
from ._trace_file import TraceSummary, recorded_trace

__all__ = ["TestDataSpeed", "process_tree", "processor_seconds", "proportional_memory"]


def process_tree() -> list[int]:
    """Lists this process and its descendants; only this process on systems without `/proc`."""
    children: dict[int, list[int]] = {}
    for process in filter(str.isdigit, os.listdir("/proc") if os.path.isdir("/proc") else ()):
        # The name, in parentheses, may contain any characters.
        fields = _read(f"/proc/{process}/stat").rpartition(")")[2].split()
        if fields and fields[0] != "Z":
            children.setdefault(int(fields[1]), []).append(int(process))
    found = [os.getpid()]
    for process_id in found:  # including those appended meanwhile
        found.extend(children.get(process_id, ()))
    return found


def processor_seconds(processes: list[int]) -> float:
    """Returns the processor time of all threads of these processes in seconds; 0 for ended processes."""
    return sum(map(_processor_seconds, processes))


def _processor_seconds(process: int) -> float:
    if process == os.getpid():
        return time.process_time()
    with suppress(OSError):  # it has ended, or the system has no such clock
        return time.clock_gettime((~process << 3) | 2)  # as clock_getcpuclockid(3) makes the number on Linux
    return 0.0


def proportional_memory(processes: list[int]) -> int:
    """Returns the bytes of memory that these processes use together; 0 if the system does not report it.

    "Proportional set size": a page shared by *n* processes counts as 1/*n* in each, so that the sum over all
    of them is their total use of memory.
    """
    return sum(map(_pss, processes))


def _pss(process: int) -> int:
    lines = _read(f"/proc/{process}/smaps_rollup").splitlines()
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)


def _read(path: str) -> str:
    """Returns the text of a file; an empty string if its process has ended, or belongs to another user."""
    # Without pathlib, because importing it would take a good part of this package's import time.
    with suppress(OSError), open(path) as file:
        return file.read()
    return ""


@final
class TestDataSpeed(ProxyDataFlow):
    """Measures the flow below, by `start()` or before its first pass; otherwise changes nothing.

    It measures at most one pass, the next one, and leaves the position unchanged.

    Args:
        ds: the flow below.
        size: number of datapoints to time.
        warmup: number of datapoints to read before that.
        seconds: time limit; stops early when it is reached; no limit by default.

    Raises:
        ArgumentError: `size` is not an integer above 0, `warmup` is not one from 0 up, or `seconds` is not a
            number above 0.

    Example:
        >>> result = TestDataSpeed([[1], [2], [3]], size=2).start()  # doctest: +ELLIPSIS
        TestDataSpeed: 2 datapoints in ...
        >>> result.datapoints
        2
    """

    __test__ = False  # for pytest, which collects every class named Test*
    effect = Effect(keeps_place=True, passes_on=True)

    def __init__(self, ds: Any, size: int = 5000, warmup: int = 0, seconds: float | None = None) -> None:
        """Stores the arguments; measures nothing."""
        super().__init__(ds)
        self._size = arguments.count("size", size)
        self._warmup = arguments.count("warmup", warmup, least=0)
        if seconds is not None and not seconds > 0:
            raise ArgumentError(f"seconds is a number above 0, or None for no limit; received {seconds!r}")
        self._seconds = seconds
        self._done = False

    def start(self) -> SpeedResult:
        """Reads the datapoints, prints a line, and returns the figures.

        Raises:
            EmptyFlowError: there are no datapoints to time.
        """
        with self._explaining():
            return self._measure(position_of(self).epoch)

    def diagnose(self, consumer: float = 0.0) -> Diagnosis:
        """Measures as `start()` does, then once more with a timer on every flow; prints a report.

        The second time, everything runs in this process, the work of workers included.

        Args:
            consumer: seconds per datapoint that the consumer takes, such as a training step. Workers that
                would only wait for it are not suggested.

        Returns:
            The figures, the bottleneck, and the suggested number of workers.

        Raises:
            EmptyFlowError: there are no datapoints to time.
        """
        with self._explaining():
            result = self._timed(position_of(self).epoch)
            with stage_timers(self) as timers:
                again = self._from_the_start(position_of(self).epoch)
                _taken(islice(again, self._warmup + self._size), self._seconds)
                measured = tuple(measured_stages(timers))
            diagnosis = Diagnosis(result, measured, self.ds.addressable, consumer)
        print(f"TestDataSpeed: {diagnosis}")
        return diagnosis

    def timeline(self, path: str) -> TraceSummary:
        """Reads the datapoints once more and writes a timeline of all processes; prints a line.

        The file is in the trace event format of Chrome and Perfetto, its times are microseconds of
        `CLOCK_MONOTONIC`, and workers are tracks. A span of a worker is a range of datapoints that it
        produces or maps, with nested spans of each flow; a copy to the consumer; or a wait for a task, or for
        memory. The consumer's process has spans for its waits for workers, and for the flows that it reads
        itself. A process has at most 100,000 spans. Measure speed without a timeline: for small datapoints,
        tracing takes longer than making them.

        Args:
            path: path of the file, written also if the flow fails.

        Returns:
            A summary of the trace.

        Raises:
            ArgumentError: the path is not writable.
        """
        with self._explaining(), recorded_trace(path) as made, stage_spans(self, process_spans()):
            _taken(islice(self._from_the_start(position_of(self).epoch), self._size), self._seconds)
        print(f"TestDataSpeed: {made[0]}")
        return made[0]

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        if not self._ready:
            self.reset_state()
        try:
            yield
        except Exception as error:
            explain(error, self, position_of(self))
            raise

    def _measure(self, epoch: Epoch) -> SpeedResult:
        result = self._timed(epoch)
        print(f"TestDataSpeed: {result}")
        return result

    def _timed(self, epoch: Epoch) -> SpeedResult:
        self._done = True
        datapoints = self._from_the_start(epoch)
        warmed_up = sum(1 for _ in islice(datapoints, self._warmup))
        computed = processor_seconds(process_tree())
        taken, seconds, size = _taken(islice(datapoints, self._size), self._seconds)
        if not taken:
            others = f", all of them to warm up: warmup={self._warmup}" if warmed_up else ""
            raise EmptyFlowError(f"nothing to time: {self.ds._name()} yielded {warmed_up} datapoints{others}")
        processes = process_tree()
        computed = max(processor_seconds(processes) - computed, 0.0)
        return SpeedResult(taken, seconds, size, proportional_memory(processes), len(processes), computed)

    def _from_the_start(self, epoch: Epoch) -> Iterator[Any]:
        # With separate marks: the real pass must not find those of the measured one.
        return self.ds._datapoints(Epoch(epoch, epoch.seed, epoch.path), 0)

    def _datapoints(self, epoch: Epoch, start: int) -> Iterator[Any]:
        if not self._done:
            self._measure(epoch)
        return super()._datapoints(epoch, start)


def _taken(datapoints: Iterator[Any], limit: float | None) -> tuple[int, float, int]:
    """Reads datapoints until the limit is reached; returns their number, the seconds, and their bytes."""
    taken = size = 0
    begin = perf_counter()
    late = begin + (inf if limit is None else limit)
    for datapoint in datapoints:
        taken += 1
        size += datapoint_size(datapoint)
        del datapoint  # frees its memory for the next one
        if perf_counter() > late:
            break
    return taken, max(perf_counter() - begin, 1e-9), size
