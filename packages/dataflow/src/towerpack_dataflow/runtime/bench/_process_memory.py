"""The memory and the processor time that this process and its workers use together."""

from __future__ import annotations

import os
import time
from contextlib import suppress

__all__ = ["process_tree", "processor_seconds", "proportional_memory"]


def process_tree() -> list[int]:
    """Lists this process and all that descend from it; only this one where there is no `/proc`."""
    children: dict[int, list[int]] = {}
    for process in filter(str.isdigit, os.listdir("/proc") if os.path.isdir("/proc") else ()):
        # The name, in parentheses, may hold anything.
        fields = _read(f"/proc/{process}/stat").rpartition(")")[2].split()
        if fields and fields[0] != "Z":
            children.setdefault(int(fields[1]), []).append(int(process))
    found = [os.getpid()]
    for process_id in found:  # and those that are appended meanwhile
        found.extend(children.get(process_id, ()))
    return found


def processor_seconds(processes: list[int]) -> float:
    """Returns the seconds that all threads of these processes have spent on processors; 0 of those ended."""
    return sum(map(_processor_seconds, processes))


def _processor_seconds(process: int) -> float:
    if process == os.getpid():
        return time.process_time()
    with suppress(OSError):  # it has ended, or the system has no such clock
        return time.clock_gettime((~process << 3) | 2)  # as clock_getcpuclockid(3) makes the number on Linux
    return 0.0


def proportional_memory(processes: list[int]) -> int:
    """Returns the bytes of memory that these processes use together; 0 where the system does not say.

    "Proportional set size": a page that *n* processes share counts as 1/*n* in each, so that the sum over all
    of them is what they take from the machine.
    """
    return sum(map(_pss, processes))


def _pss(process: int) -> int:
    lines = _read(f"/proc/{process}/smaps_rollup").splitlines()
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)


def _read(path: str) -> str:
    """Returns the text of a file; nothing if its process has ended meanwhile, or is another user's."""
    # Not by pathlib, whose import would be a good part of this package's.
    with suppress(OSError), open(path) as file:
        return file.read()
    return ""
