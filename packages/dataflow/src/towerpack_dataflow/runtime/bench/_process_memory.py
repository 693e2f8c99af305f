"""Memory and processor time of this process and its workers together."""

from __future__ import annotations

import os
import time
from contextlib import suppress

__all__ = ["process_tree", "processor_seconds", "proportional_memory"]


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
