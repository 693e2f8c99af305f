"""Trace files in the trace event format, with a description of their clock."""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from towerpack_callbacks.writing import atomic_write

from ..._errors import TraceError

__all__ = ["clock_of_this_machine", "merge_traces", "read_trace", "write_trace"]

_CLOCK = ("clock", "host", "boot_id")


def clock_of_this_machine() -> dict[str, str]:
    """Returns the description of this machine's clock: `CLOCK_MONOTONIC` begins with a boot."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        boot = ""
    return dict(zip(_CLOCK, ("CLOCK_MONOTONIC", platform.node(), boot)))


def read_trace(path: Path) -> dict[str, Any]:
    """Reads a trace.

    Raises:
        TraceError: the file was not written by this library.
        OSError: the file cannot be read.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise TraceError(f"{path} is not a trace: it is not JSON ({error}).") from error
    if not isinstance(found, dict) or not isinstance(found.get("traceEvents"), list):
        raise TraceError(f"{path} is not a trace: it has no list of traceEvents.")
    other = found.get("otherData")
    if not isinstance(other, dict) or not all(isinstance(other.get(name), str) for name in _CLOCK):
        raise TraceError(
            f"{path} does not describe its clock. Use traces written by TrainConfig(trace=...) or "
            "`python -m towerpack_dataflow bench --trace`."
        )
    return found


def merge_traces(paths: Sequence[Path]) -> dict[str, Any]:
    """Merges traces of one machine; their times already use the same clock.

    Args:
        paths: the paths of the traces.

    Returns:
        The trace, with all their events.

    Raises:
        TraceError: a file is not a trace, or the traces have different hosts, boots or clocks.
        OSError: a file cannot be read.
    """
    traces = [read_trace(path) for path in paths]
    first = traces[0]["otherData"]
    for path, trace in zip(paths, traces):
        for name, found in ((name, trace["otherData"][name]) for name in _CLOCK):
            if found != first[name]:
                raise TraceError(
                    f"{path} has the {name} {found!r}, but {paths[0]} has {first[name]!r}: their times "
                    "cannot be compared. Merge traces of one host since its last boot."
                )
    events = [event for trace in traces for event in trace["traceEvents"]]
    return {"traceEvents": events, "otherData": {name: first[name] for name in _CLOCK}}


def write_trace(path: Path, trace: dict[str, Any]) -> None:
    """Writes a trace, completely or not at all.

    Raises:
        OSError: the file cannot be written.
    """
    with atomic_write(path) as aside, aside.open("w", encoding="utf-8") as file:
        json.dump({**trace, "displayTimeUnit": "ms"}, file)
