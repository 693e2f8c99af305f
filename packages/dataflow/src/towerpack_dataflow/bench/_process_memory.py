"""How much memory this process and its workers really use."""

from __future__ import annotations

import os
from pathlib import Path


def family() -> list[int]:
    """This process and all that descend from it; only itself where there is no `/proc`."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The name, in parentheses, may hold anything.
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # ended meanwhile
            continue
        if fields[0] != "Z":
            children.setdefault(int(fields[1]), []).append(int(path.parent.name))
    found = [os.getpid()]
    for process in found:
        found.extend(children.get(process, ()))
    return found


def proportional_memory(processes: list[int]) -> int:
    """Bytes of memory that these processes use together; 0 where the system does not say.

    "Proportional set size": a page that *n* processes share counts as 1/*n* in each, so that the sum over all
    of them is what they take from the machine.
    """
    return sum(map(_pss, processes))


def _pss(process: int) -> int:
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)
