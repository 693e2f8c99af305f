"""Trace files: in the trace event format, with what says whose clock their times are of."""

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
    """Returns what traces that can be put together have in common: `CLOCK_MONOTONIC` begins with a boot."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        boot = ""
    return dict(zip(_CLOCK, ("CLOCK_MONOTONIC", platform.node(), boot)))


def read_trace(path: Path) -> dict[str, Any]:
    """Reads a trace.

    Raises:
        TraceError: the file is none that this library has written.
        OSError: the file cannot be read.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise TraceError(f"{path} is no trace: it is not JSON ({error}).") from error
    if not isinstance(found, dict) or not isinstance(found.get("traceEvents"), list):
        raise TraceError(f"{path} is no trace: it has no list of traceEvents.")
    other = found.get("otherData")
    if not isinstance(other, dict) or not all(isinstance(other.get(name), str) for name in _CLOCK):
        raise TraceError(
            f"{path} does not say which clock its times are of. Give traces that TrainConfig(trace=...) or "
            "`python -m towerpack_dataflow bench --trace` has written."
        )
    return found


def merge_traces(paths: Sequence[Path]) -> dict[str, Any]:
    """Puts traces of one machine together: their times are of one clock already.

    Args:
        paths: of the traces.

    Returns:
        The trace, with all their events.

    Raises:
        TraceError: one of them is no trace, or they are of different hosts, boots or clocks.
        OSError: one of them cannot be read.
    """
    traces = [read_trace(path) for path in paths]
    first = traces[0]["otherData"]
    for path, trace in zip(paths, traces):
        for name, found in ((name, trace["otherData"][name]) for name in _CLOCK):
            if found != first[name]:
                raise TraceError(
                    f"{path} is of the {name} {found!r}, and {paths[0]} of {first[name]!r}: their times "
                    "have nothing in common. Put together traces of one host since its last boot."
                )
    events = [event for trace in traces for event in trace["traceEvents"]]
    return {"traceEvents": events, "otherData": {name: first[name] for name in _CLOCK}}


def write_trace(path: Path, trace: dict[str, Any]) -> None:
    """Writes a trace, as a whole or not at all.

    Raises:
        OSError: it cannot be written.
    """
    with atomic_write(path) as aside, aside.open("w", encoding="utf-8") as file:
        json.dump({**trace, "displayTimeUnit": "ms"}, file)
