"""Measures the memory use of the machine and of this process."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import final

from ..callback import Callback

__all__ = ["HostMemoryTracker"]

_GIGABYTE = 1e9
_PROC = Path("/proc")


@final
class HostMemoryTracker(Callback):
    """Puts the machine's available memory and this process's memory, in gigabytes, at each trigger.

    The statistics are `HostMemory/available_gb` and `HostMemory/process_gb` (resident size, without the
    workers of parallel flows). On Linux it reads /proc; other systems need the extra "memory".

    Raises:
        ImportError: (at set-up) the system has no /proc, and psutil is not installed.
    """

    chief_only = False

    def _setup_graph(self) -> None:
        self._read = _read_proc if (_PROC / "meminfo").exists() else _import_psutil_reader()

    def produces(self) -> Sequence[str]:
        return ["HostMemory/available_gb", "HostMemory/process_gb"]

    def _trigger(self) -> None:
        for name, size in zip(self.produces(), self._read()):
            self.trainer.monitors.put_scalar(name, size / _GIGABYTE)


def _read_proc() -> tuple[int, int]:
    lines = dict(line.split(":", 1) for line in (_PROC / "meminfo").read_text().splitlines())
    available = int(lines["MemAvailable"].split()[0]) * 1024
    pages = int((_PROC / "self" / "statm").read_text().split()[1])
    return available, pages * os.sysconf("SC_PAGE_SIZE")


def _import_psutil_reader() -> Callable[[], tuple[int, int]]:
    try:
        psutil = importlib.import_module("psutil")
    except ImportError as error:
        raise ImportError(
            "HostMemoryTracker needs psutil on systems without /proc: pip install towerpack-callbacks[memory]"
        ) from error
    process = psutil.Process()
    return lambda: (psutil.virtual_memory().available, process.memory_info().rss)
