"""The trace file: the spans of all processes, collected at the end of a trace.

A module apart from the spans: workers write spans, and would import the writers of files for nothing.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple, final

from ..._errors import ArgumentError
from ...storage import create_file, locked_folder
from .._spans import TRACE_VARIABLE, process_spans

__all__ = ["TraceSummary", "recorded_trace"]

_BOOT_ID = "/proc/sys/kernel/random/boot_id"


@final
class TraceSummary(NamedTuple):
    """A summary of a trace.

    Attributes:
        path: path of the file.
        spans: number of spans.
        processes: number of processes with spans.

    Example:
        >>> print(TraceSummary("out.json", spans=12, processes=3))
        12 spans of 3 processes: out.json, to be opened at ui.perfetto.dev
    """

    path: str
    spans: int
    processes: int

    def __str__(self) -> str:
        """Returns the line that `TestDataSpeed.timeline()` prints."""
        of = "1 process" if self.processes == 1 else f"{self.processes} processes"
        return f"{self.spans} spans of {of}: {self.path}, to be opened at ui.perfetto.dev"


@contextmanager
def recorded_trace(path: str) -> Iterator[list[TraceSummary]]:
    """Records a trace of the block, also if it fails; yields a list for the summary.

    Args:
        path: path of the file, which is created atomically. Until then a hidden directory next to it holds
            the spans; the next trace there removes it if this process is killed.

    Raises:
        ArgumentError: the path is not writable.
    """
    made: list[TraceSummary] = []
    before = os.environ.get(TRACE_VARIABLE)
    parent = os.path.dirname(os.path.realpath(path))
    with ExitStack() as stack:
        try:
            directory = stack.enter_context(locked_folder(parent, ".towerpack-trace-"))
        except OSError as error:
            raise ArgumentError(
                f"path is a file in a writable directory; received {path!r}: {error.strerror}"
            ) from error
        os.environ[TRACE_VARIABLE] = directory
        try:
            yield made
        finally:
            process_spans(directory).flush()
            os.environ.pop(TRACE_VARIABLE)
            if before is not None:
                os.environ[TRACE_VARIABLE] = before
            made.append(_write(directory, path))


def _write(directory: str, path: str) -> TraceSummary:
    events = [event for name in sorted(os.listdir(directory)) for event in _events(f"{directory}/{name}")]
    whole = {"traceEvents": events, "displayTimeUnit": "ms", "otherData": _about_the_clock()}
    with create_file(path) as file:
        file.write(json.dumps(whole).encode())
    processes = [event["pid"] for event in events if event["ph"] == "X"]
    return TraceSummary(path, len(processes), len(set(processes)))


def _events(path: str) -> Iterator[dict[str, Any]]:
    """Yields the events of one process; a killed one may have left an incomplete line."""
    with open(path, encoding="utf-8") as file:
        for line in file:
            if line.endswith("\n"):
                yield json.loads(line)


def _about_the_clock() -> dict[str, str]:
    """Returns the properties that two traces must share to be combined."""
    try:
        with open(_BOOT_ID, encoding="ascii") as file:
            boot = file.read().strip()
    except OSError:
        boot = ""
    return {"clock": "CLOCK_MONOTONIC", "host": platform.node(), "boot_id": boot}
